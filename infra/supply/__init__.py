"""Scripts for third-party code that the product ships: bills of materials, licences and a JavaScript bundle."""
