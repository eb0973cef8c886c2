"""The catalog as files that are kept beside code: what it holds, written down, and how it differs from that."""
