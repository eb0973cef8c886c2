"""Run what a schedule starts: followed storages, notices, and objects that expire."""
