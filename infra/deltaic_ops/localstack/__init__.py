"""Run LocalStack, an emulator of AWS, on this machine and deploy the template there."""
