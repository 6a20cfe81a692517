"""What users pass: queries, any array as a tensor, checks of options, messages.

Arrays come in; batches and rows of tensors go out, or an error that names the argument. It imports
no other room. Begin with `batch.Batch`, the arguments of an update, and `record.Record`, what a
metric reads of them.
"""
