"""What the product is made of besides its own code: packages, their licences, their age."""
