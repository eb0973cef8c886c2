"""Start emulators of AWS without Docker, for the tests of deployment: LocalEmu and LocalStack's open source."""
