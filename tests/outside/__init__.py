"""Programs and decoders of others, and small ones of our own, that read what callgrove writes."""
