// Code for pandas and Spark that reads the same rows as the page.

/** Return both snippets for a table and the requested version or time. */
export function snippets({ share, schema, name }, at, profile) {
  const url = python(`${profile}#${share}.${schema}.${name}`);
  const version = at.version !== undefined ? `, version=${at.version}` : "";
  const time = at.timestamp ? `, timestamp=${python(at.timestamp)}` : "";
  const options = at.version !== undefined ? `\n    .option("versionAsOf", ${at.version})` : at.timestamp ? `\n    .option("timestampAsOf", ${python(at.timestamp)})` : "";
  return {
    pandas: `# pip install delta-sharing\nimport delta_sharing\n\ndelta_sharing.load_as_pandas(${url}, limit=200${version}${time})\n`,
    spark: `# spark-submit --packages io.delta:delta-sharing-spark_4.1_2.13:4.2.0\nspark.read.format("deltaSharing").option("responseFormat", "delta")${options} \\\n    .load(${url}) \\\n    .show()\n`.replaceAll("\n    .option", " \\\n    .option"),
  };
}

/** Return any text as a Python literal. */
const python = (text) => JSON.stringify(text).replace(/[\u007f-\uffff]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);
