// Values of this page by column type, and their exact text.
//
// long, decimal (unscaled) and timestamps (microseconds) are BigInt; date is days; binary is bytes; an array is an
// array, a map an array of {key, value}, a struct an array of its fields in order. Null is null.

const DAY_MICROS = 86_400_000_000n;
const DAY_MILLIS = 86_400_000;
const CYCLE_DAYS = 146_097; // 400 years, after which dates repeat: Date does not support all years of a table
const INTEGERS = new Set(["byte", "short", "integer", "long"]);
const SIMPLE = new Set([...INTEGERS, "float", "double", "string", "binary", "boolean", "date", "timestamp", "timestamp_ntz"]);
const DECIMAL = /^decimal\((\d+),\s*(-?\d+)\)$/;

/** Return precision and scale of a decimal type; null for other types. */
export function decimalOf(type) {
  const match = typeof type === "string" && DECIMAL.exec(type);
  return match ? { precision: Number(match[1]), scale: Number(match[2]) } : null;
}

/** Return the text of a type: `array<struct<a: long>>`. */
export function typeText(type) {
  if (typeof type === "string") return type;
  if (type.type === "array") return `array<${typeText(type.elementType)}>`;
  if (type.type === "map") return `map<${typeText(type.keyType)}, ${typeText(type.valueType)}>`;
  if (type.type === "struct") return `struct<${type.fields.map((field) => `${field.name}: ${typeText(field.type)}`).join(", ")}>`;
  return String(type.type);
}

/** Return the part of a type that this page cannot show exactly; null if it can show all. */
export function unshown(type) {
  if (typeof type === "string") return SIMPLE.has(type) || DECIMAL.test(type) ? null : type;
  if (type.type === "array") return unshown(type.elementType);
  if (type.type === "map") return unshown(type.keyType) ?? unshown(type.valueType);
  if (type.type === "struct") return type.fields.map((field) => unshown(field.type)).find(Boolean) ?? null;
  return String(type.type);
}

export const isNumber = (type) => INTEGERS.has(type) || type === "float" || type === "double" || decimalOf(type) !== null;

/** Return the text of a value for a cell; null for null. */
export function cellText(value, type) {
  if (value === null || value === undefined) return null;
  const decimal = decimalOf(type);
  if (decimal) return decimalText(value, decimal.scale);
  switch (type) {
    case "float":
    case "double":
      return floatText(value, type === "float");
    case "date":
      return dateText(value);
    case "timestamp":
      return `${timestampText(value)}Z`;
    case "timestamp_ntz":
      return timestampText(value);
    case "binary":
      return Array.from(value, (byte) => byte.toString(16).padStart(2, "0")).join("");
    case "string":
      return value;
  }
  return typeof type === "string" ? String(value) : jsonText(value, type);
}

/** Return nested values as JSON, whose numbers keep every digit. */
function jsonText(value, type) {
  if (value === null || value === undefined) return "null";
  if (type.type === "array") return `[${value.map((item) => jsonText(item, type.elementType)).join(",")}]`;
  if (type.type === "map") {
    const entries = value.map((entry) => [cellText(entry.key, type.keyType), jsonText(entry.value, type.valueType)]);
    return `{${entries.map(([key, text]) => `${JSON.stringify(key)}:${text}`).join(",")}}`;
  }
  if (type.type === "struct") {
    return `{${type.fields.map((field, at) => `${JSON.stringify(field.name)}:${jsonText(value[at], field.type)}`).join(",")}}`;
  }
  const text = cellText(value, type);
  const bare = type === "boolean" || (isNumber(type) && /^-?\d/.test(text));
  return bare ? text : JSON.stringify(text);
}

export function decimalText(unscaled, scale) {
  if (scale <= 0) return String(unscaled * 10n ** BigInt(-scale));
  const digits = String(unscaled < 0n ? -unscaled : unscaled).padStart(scale + 1, "0");
  return `${unscaled < 0n ? "-" : ""}${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}

function floatText(value, single) {
  if (Object.is(value, -0)) return "-0";
  if (!single || !Number.isFinite(value)) return String(value);
  for (let digits = 1; digits < 9; digits++) {
    const text = Number(value.toPrecision(digits));
    if (Math.fround(text) === value) return String(text);
  }
  return String(Number(value.toPrecision(9)));
}

function dateText(days) {
  const cycle = Math.floor(days / CYCLE_DAYS);
  const date = new Date((days - cycle * CYCLE_DAYS) * DAY_MILLIS);
  const year = date.getUTCFullYear() + cycle * 400;
  return `${year < 0 ? "-" : ""}${String(Math.abs(year)).padStart(4, "0")}${date.toISOString().slice(4, 10)}`;
}

function timestampText(micros) {
  const days = micros / DAY_MICROS - (micros % DAY_MICROS < 0n ? 1n : 0n);
  const rest = micros - days * DAY_MICROS;
  const seconds = Number(rest / 1_000_000n);
  const pair = (number) => String(Math.floor(number)).padStart(2, "0");
  const fraction = String(rest % 1_000_000n).padStart(6, "0").replace(/0+$/, "");
  const time = `${pair(seconds / 3600)}:${pair((seconds / 60) % 60)}:${pair(seconds % 60)}`;
  return `${dateText(Number(days))}T${time}${fraction && `.${fraction}`}`;
}

/**
 * Parse a partition value or a typed value. Throws if it does not have the type.
 * @param {string} text
 */
export function fromText(text, type) {
  const bad = () => new Error(`“${text}” is not a value of type ${typeText(type)}.`);
  const decimal = decimalOf(type);
  if (decimal) return decimalFrom(text, decimal.scale, bad);
  switch (type) {
    case "string":
      return text;
    case "binary":
      return new TextEncoder().encode(text);
    case "boolean":
      if (!/^(true|false)$/i.test(text)) throw bad();
      return text.toLowerCase() === "true";
    case "byte":
    case "short":
    case "integer":
    case "long":
      if (!/^[+-]?\d+$/.test(text)) throw bad();
      return type === "long" ? BigInt(text.replace(/^\+/, "")) : Number(text);
    case "float":
    case "double": {
      const number = text === "NaN" ? NaN : Number(text.replace(/^(-?)inf(inity)?$/i, "$1Infinity"));
      if (text.trim() === "" || (Number.isNaN(number) && text !== "NaN")) throw bad();
      return type === "float" ? Math.fround(number) : number;
    }
    case "date":
      return dateFrom(text, bad);
    case "timestamp":
    case "timestamp_ntz":
      return timestampFrom(text, bad);
  }
  throw bad();
}

function decimalFrom(text, scale, bad) {
  const match = /^([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d{1,3}))?$/.exec(text);
  if (!match || !(match[2] || match[3])) throw bad();
  const digits = BigInt(match[2] + (match[3] ?? ""));
  const shift = scale - (match[3] ?? "").length + Number(match[4] ?? 0);
  const unscaled = shift >= 0 ? digits * 10n ** BigInt(shift) : digits / 10n ** BigInt(-shift);
  if (shift < 0 && unscaled * 10n ** BigInt(-shift) !== digits) throw bad();
  return match[1] === "-" ? -unscaled : unscaled;
}

function dateFrom(text, bad) {
  const match = /^(-?\d{4,6})-(\d{1,2})-(\d{1,2})$/.exec(text);
  if (!match) throw bad();
  const [year, month, day] = match.slice(1).map(Number);
  const date = new Date(0);
  date.setUTCFullYear(2000 + (year % 400), month - 1, day);
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) throw bad();
  return date / DAY_MILLIS + (Math.trunc(year / 400) - 5) * CYCLE_DAYS;
}

function timestampFrom(text, bad) {
  const match = /^(\S+?)(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?(Z|[+-]\d{2}:?\d{2})?)?$/.exec(text.trim());
  if (!match) throw bad();
  const [, day, hour = "0", minute = "0", second = "0", fraction = "", zone = "Z"] = match;
  if (Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59) throw bad();
  const offset = zone === "Z" ? 0 : (zone[0] === "-" ? -1 : 1) * (Number(zone.slice(1, 3)) * 60 + Number(zone.slice(-2)));
  const seconds = Number(hour) * 3600 + (Number(minute) - offset) * 60 + Number(second);
  return BigInt(dateFrom(day, bad)) * DAY_MICROS + BigInt(seconds) * 1_000_000n + BigInt(fraction.padEnd(6, "0"));
}
