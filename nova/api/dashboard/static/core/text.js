// Texts in the user's language, and numbers and times as people read them.

const LANGUAGE = 'nova.language';
/** @type {{language: string, texts: Record<string, string>}} */
let catalog = {language: 'en', texts: {}};

/** Load the texts of the browser's language; those of the code where there are none. */
export async function loadTexts() {
  const chosen = localStorage.getItem(LANGUAGE);
  const answer = await fetch(new URL('texts.json', document.baseURI), chosen ? {headers: {'Accept-Language': chosen}} : {});
  if (answer.ok) catalog = await answer.json();
  document.documentElement.lang = catalog.language;
}

/** The language of the page. */
export const language = () => catalog.language;

/** Choose another language than that of the browser, and load the page again. @param {string} chosen */
export function setLanguage(chosen) {
  localStorage.setItem(LANGUAGE, chosen);
  location.reload();
}

/**
 * A text in the user's language.
 * @param {string} text  in English, as the catalogue has it; {name} stands for a value
 * @param {Record<string, any>} [values]
 */
export function t(text, values) {
  const found = catalog.texts[text] ?? text;
  return values ? found.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? '')) : found;
}

/** @param {number} value @param {number} [digits] */
export function number(value, digits = 0) {
  return new Intl.NumberFormat(catalog.language, {maximumFractionDigits: digits}).format(value);
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

/** @param {number | null | undefined} value  in bytes */
export function bytes(value) {
  if (value === null || value === undefined) return '–';
  let place = 0,
    left = value;
  while (left >= 1024 && place < UNITS.length - 1) {
    left /= 1024;
    place += 1;
  }
  return `${number(left, left < 10 && place ? 1 : 0)} ${UNITS[place]}`;
}

/** @param {number | null | undefined} value  in MiB */
export const mebibytes = value => (value === null || value === undefined ? '–' : bytes(value * 1048576));

/** The moment of an API's time, which is UTC whether it says so or not. @param {string} value */
export function moment(value) {
  return new Date(/(Z|[+-]\d\d:?\d\d)$/.test(value) ? value : value + 'Z');
}

/** @param {string | null | undefined} value */
export function date(value) {
  if (!value) return '–';
  return new Intl.DateTimeFormat(catalog.language, {dateStyle: 'medium', timeStyle: 'short'}).format(moment(value));
}

/** @type {[Intl.RelativeTimeFormatUnit, number][]} */
const SPANS = [
  ['year', 31536000],
  ['month', 2592000],
  ['day', 86400],
  ['hour', 3600],
  ['minute', 60],
  ['second', 1],
];

/** How long ago. @param {string | null | undefined} value */
export function ago(value) {
  if (!value) return '–';
  const seconds = (moment(value).getTime() - Date.now()) / 1000;
  const [unit, size] = SPANS.find(([, length]) => Math.abs(seconds) >= length) ?? ['second', 1];
  return new Intl.RelativeTimeFormat(catalog.language, {numeric: 'auto'}).format(Math.round(seconds / size), unit);
}

/** Seconds between two times of an API. @param {string} from @param {string | null} to */
export function span(from, to) {
  if (!to) return '';
  const seconds = (moment(to).getTime() - moment(from).getTime()) / 1000;
  return seconds < 90 ? `${number(seconds, 1)} s` : `${number(seconds / 60, 1)} min`;
}

/** The beginning of an id, enough to recognize it. @param {string | null | undefined} id */
export const short = id => (id ? id.slice(0, 8) : '–');

/** The name of a volume type: the built-in one is called by a name for programs. @param {string} name */
export const typeName = name => (name === '__DEFAULT__' ? t('Default') : name);
