// Tables as CSV (RFC 4180).

/** @param {any} value */
const cell = value => {
  const text = String(value ?? '');
  const safe = /^[=+\-@\t\r]/.test(text) && !/^-?[\d.]+$/.test(text) ? `'${text}` : text; // no formula of a spreadsheet
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
};

/** @param {any[][]} rows */
export const csv = rows => rows.map(row => row.map(cell).join(',')).join('\r\n');
