"""Report requests and downloaded bytes by recipient and table, with plots."""
