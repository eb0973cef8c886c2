"""The options of Spark's readers and the properties of Delta's tables, by which misspelt ones are told."""

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
"""What each reader takes, in any spelling of capitals. A database's reader hands on what it does not know itself."""

_PROPERTIES = (
    "appendOnly autoOptimize autoOptimize.autoCompact autoOptimize.optimizeWrite castIcebergTimeType "
    "checkpoint.writeStatsAsJson checkpoint.writeStatsAsStruct checkpointInterval checkpointPolicy "
    "checkpointRetentionDuration columnMapping.maxColumnId columnMapping.mode "
    "compatibility.symlinkFormatManifest.enabled coordinatedCommits.commitCoordinator-preview "
    "coordinatedCommits.commitCoordinatorConf-preview coordinatedCommits.tableConf-preview "
    "dataSkippingNumIndexedCols dataSkippingStatsColumns dataSkippingStringPrefixLength "
    "deletedFileRetentionDuration dropFeatureTruncateHistory.retentionDuration enableChangeDataCapture "
    "enableChangeDataFeed enableDeletionVectors enableExpiredLogCleanup enableFullRetentionRollback "
    "enableIcebergCompatV1 enableIcebergCompatV2 enableInCommitTimestamps enableMaterializePartitionColumnsFeature "
    "enableRowTracking enableTypeWidening enableVariantShredding ignoreIcebergBucketPartition "
    "ignoreProtocolDefaults inCommitTimestampEnablementTimestamp inCommitTimestampEnablementVersion isolationLevel "
    "logRetentionDuration minReaderVersion minWriterVersion randomPrefixLength randomizeFilePrefixes "
    "redirectReaderWriter-preview redirectWriterOnly-preview requireCheckpointProtectionBeforeVersion "
    "rowTrackingSuspended sampleRetentionDuration setTransactionRetentionDuration "
    "universalFormat.enabledFormats universalFormat.iceberg.atomicConversion.supported"
)
PROPERTIES = frozenset(f"delta.{name}" for name in _PROPERTIES.split())
"""Delta refuses others of its own; `delta.feature.*` and `delta.constraints.*` are for it to judge."""

_PARTIAL = {"ignorecorruptfiles", "ignoremissingfiles", "readchangefeed", "readchangedata"}


def unknown_options(source_format: str, options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the options that no reader of this format has, and what to say; names with periods are Hadoop's."""
    known = READERS.get(source_format)
    for name in options if known else ():
        if "." not in name and name.lower() not in {option.lower() for option in known or ()}:
            yield name, f"is no option of Spark's reader of {source_format}" + did_you_mean(name, known or ())


def refused_options(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the options by which a reader of CSV or JSON would lose what does not fit the schema, and what to say."""
    for name, value in options.items():
        if name.lower() == "columnnameofcorruptrecord" or (name.lower() == "mode" and value.upper() != "FAILFAST"):
            yield name, "would lose values that do not fit the schema"
        elif name.lower().startswith("allow") and name.lower() != "allowoverwrites":
            yield name, "reads what is not JSON"


def partial_options(options: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the options by which a reader leaves out rows that are there, and what to say."""
    for name, value in options.items():
        left = name.lower() in {"modifiedafter", "modifiedbefore"}
        if left or (name.lower() in _PARTIAL and value.lower() == "true"):
            yield name, "leaves out what is there"


def unknown_properties(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the properties of Delta's own that it does not have, and what to say."""
    known = {name.lower() for name in PROPERTIES}
    for name in properties:
        own = name.lower().startswith("delta.") and not name.lower().startswith(
            ("delta.feature.", "delta.constraints.")
        )
        if own and name.lower() not in known:
            yield name, "is no property of Delta's tables" + did_you_mean(name, PROPERTIES)
