"""What users pass: any array as a tensor, checks of options, messages, batches and records.

It imports no other room. Begin with `batch.Batch`, the arguments of an update, and
`record.Record`, what a metric reads of them.
"""
