"""What stands for a place that no candidate has."""

#: `above` of a relevant location that the model does not retrieve: beyond every cut-off `k`.
UNRETRIEVED = 1 << 62

#: an id that no list holds, not even as padding
UNLISTED = -1 << 63
