"""List the known options of Spark's readers, to detect misspelled names, which Spark ignores."""

from collections.abc import Iterator, Mapping

from deltaic_terminal.nearest import did_you_mean

_FILES = (
    "basePath ignoreCorruptFiles ignoreInvalidPartitionPaths ignoreMissingFiles modifiedAfter modifiedBefore "
    "pathGlobFilter recursiveFileLookup timeZone "
    # of a stream
    "allowOverwrites cleanSource discardCachedInputRatio fileNameOnly latestFirst maxBytesPerTrigger maxCachedFiles "
    "maxFileAge maxFilesPerTrigger sourceArchiveDir"
)
_TEXT = (
    "charset columnNameOfCorruptRecord compression dateFormat enableDateTimeParsingFallback encoding lineSep locale "
    "mode multiLine samplingRatio singleVariantColumn timestampFormat timestampNTZFormat"
)
READERS: Mapping[str, frozenset[str]] = {
    name: frozenset(options.split())
    for name, options in {
        "csv": f"{_FILES} {_TEXT} charToEscapeQuoteEscaping codec columnPruning comment delimiter emptyValue "
        "enforceSchema escape escapeQuotes extension header ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace "
        "inferSchema inputBufferSize maxCharsPerColumn maxColumns nanValue negativeInf nullValue positiveInf "
        "preferDate quote quoteAll sep unescapedQuoteHandling",
        "json": f"{_FILES} {_TEXT} allowBackslashEscapingAnyCharacter allowComments allowNonNumericNumbers "
        "allowNumericLeadingZeros allowSingleQuotes allowUnquotedControlChars allowUnquotedFieldNames "
        "dropFieldIfAllNull ignoreNullFields inferTimestamp prefersDecimal pretty primitivesAsString useUnsafeRow "
        "wholetext writeNonAsciiCharacterAsCodePoint",
        "parquet": f"{_FILES} compression datetimeRebaseMode int96RebaseMode mergeSchema",
        "avro": f"{_FILES} avroSchema avroSchemaUrl compression datetimeRebaseMode enableStableIdentifiersForUnionType "
        "ignoreExtension mode positionalFieldMatching recordName recordNamespace recursiveFieldMaxDepth "
        "stableIdentifierPrefixForUnionType",
        "delta": "allowSourceColumnDrop allowSourceColumnRename allowSourceColumnRenameAndDrop "
        "allowSourceColumnTypeChange endingTimestamp endingVersion excludeRegex failOnDataLoss ignoreChanges "
        "ignoreDeletes ignoreFileDeletion maxBytesPerTrigger maxFilesPerTrigger readChangeData readChangeFeed "
        "schemaLocation schemaTrackingLocation skipChangeCommits startingTimestamp startingVersion "
        "streamingSourceTrackingId timestampAsOf versionAsOf",
    }.items()
}
"""Options of each Spark reader; case does not matter. JDBC readers accept any option, so they are not listed."""

_PARTIAL = {"ignorecorruptfiles", "ignoremissingfiles", "readchangefeed", "readchangedata"}


def unknown_options(source_format: str, options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each unknown option of a format's reader, with an error message; skips Hadoop's (names with periods)."""
    reader_options = READERS.get(source_format)
    for name in options if reader_options else ():
        if "." not in name and name.lower() not in {option.lower() for option in reader_options or ()}:
            yield name, f"is not an option of Spark's {source_format} reader" + did_you_mean(name, reader_options or ())


def refused_options(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each option with which a CSV or JSON reader would lose values, with an error message."""
    for name, value in options.items():
        if name.lower() == "columnnameofcorruptrecord" or (name.lower() == "mode" and value.upper() != "FAILFAST"):
            yield name, "would lose values that do not fit the schema"
        elif name.lower().startswith("allow") and name.lower() != "allowoverwrites":
            yield name, "accepts text that is not JSON"


def partial_options(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each option with which a reader skips files or rows, with an error message."""
    for name, value in options.items():
        skips_files = name.lower() in {"modifiedafter", "modifiedbefore"}
        if skips_files or (name.lower() in _PARTIAL and value.lower() == "true"):
            yield name, "skips files or rows of the source"
