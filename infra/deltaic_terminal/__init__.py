"""Output and input that the command line and the Spark jobs share: text for terminals, steps, files that people write.

For example `deltaic apply catalog.yaml`, with a field `recipient` where `recipients` belongs:

    printing      runs the command in `only_text`: whatever it prints, no escape sequence reaches the terminal
    progress      a `step` begins on stderr: a spinner on a terminal, a plain line elsewhere
    document      reads the YAML and keeps the line of every value
    mistakes      turns the error of pydantic into `Mistake(line 3, "recipient", "is not a field here...")`
    nearest       adds ": did you mean recipients?"

`environment` is the odd one: the cache folder and the Maven repository of this machine. The package knows neither AWS,
Spark, the catalog nor Delta Lake. It imports the standard library, rich and PyYAML alone.
"""
