"""The arguments that users pass: queries, arrays as tensors, checks of options, messages.

Arrays come in; batches and rows of tensors go out, or an error that names the argument. This room
imports no other room. Begin with `batch.Batch`, the arguments of an update, and `record.Record`,
the numbers that a metric reads of them.
"""
