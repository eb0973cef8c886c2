"""Prove what only a real deployment can show: the rows of docs/first-deploy.md, from doctor, verify and probes."""
