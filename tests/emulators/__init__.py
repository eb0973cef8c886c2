"""Starts emulators of AWS that need no Docker, for the tests of deployment: LocalEmu and LocalStack's open source."""
