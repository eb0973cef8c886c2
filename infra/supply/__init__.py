"""Scripts for a release: the stack, its provenance, bills of materials, licences, and a bundle of JavaScript."""
