"""Run LocalStack, an emulator of AWS, on this machine, and deploy template.yaml to it."""
