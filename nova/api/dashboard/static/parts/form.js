// Forms made of rows. A field's options may be asked of an API; they are asked for when the form is shown.
import {html, useEffect, useState} from '../core/html.js';
import {useSettled} from '../core/load.js';
import {t} from '../core/text.js';

/**
 * @typedef {{value: string, label: string, note?: string}} Option
 * @typedef {Record<string, any>} Values
 * @typedef {{name: string, label: string, type?: 'text' | 'find' | 'textarea' | 'number' | 'select' | 'many' | 'check' | 'password' | 'file',
 *   required?: boolean, help?: string, value?: any, min?: number, max?: number, pattern?: string,
 *   options?: Option[] | ((values: Values, text: string) => Promise<Option[]>), when?: (values: Values) => boolean,
 *   depends?: string[], none?: string, preset?: boolean, more?: boolean, suggestions?: string[], below?: (value: any) => any}} Field
 * preset: the first option is chosen once the options are known; more: the field is in the folded part of the form
 * below: what is shown below the field
 * find: a choice among more things than a list can hold; the options are asked for with the text that was typed
 */

/** The values that a form begins with. @param {Field[]} fields @returns {Values} */
export const initial = fields =>
  Object.fromEntries(
    fields.map(field => [
      field.name,
      field.value ?? (field.type === 'check' ? false : field.type === 'many' ? [] : ''),
    ]),
  );

/** @param {{fields: Field[], values: Values, onChange: (change: (before: Values) => Values) => void}} props */
export const Fields = ({fields, values, onChange}) => {
  const shown = fields.filter(field => !field.when || field.when(values));
  const one = (/** @type {Field} */ field) => html`
    <${One} key=${field.name} field=${field} values=${values}
      set=${(/** @type {any} */ value) => onChange(before => ({...before, [field.name]: value}))} />`;
  const more = shown.filter(field => field.more);
  return html`<div class="fields">${shown.filter(field => !field.more).map(one)}
    ${more.length > 0 && html`<details class="more" key="more"><summary>${t('More')}</summary><div class="fields">${more.map(one)}</div></details>`}</div>`;
};

/** @param {{field: Field, values: Values, set: (value: any) => void}} props */
function One({field, values, set}) {
  const id = 'f-' + field.name;
  const [error, setError] = useState('');
  const [text, setText] = useState('');
  const [known, setKnown] = useState(
    /** @type {{text: string, options: Option[] | null}} */ ({text, options: Array.isArray(field.options) ? field.options : null}),
  );
  const options = known.text === text ? known.options : null; // null: those of the typed text are not there yet
  const settled = useSettled(text, 250);
  useEffect(
    () => {
      if (typeof field.options !== 'function') return;
      let wanted = true;
      setKnown({text: settled, options: null});
      field.options(values, settled).then(
        found => {
          if (!wanted) return;
          setKnown({text: settled, options: found});
          setError('');
          if (field.preset && !values[field.name] && found.length) set(found[0].value);
          if (
            (field.type === 'select' || field.type === 'find') &&
            field.required &&
            !field.none &&
            !found.some(one => one.value === values[field.name])
          )
            set(field.value && field.type === 'select' ? '' : (found[0]?.value ?? '')); // nothing in place of what was chosen before
          else if (
            (field.type === 'find' || (field.type === 'select' && values[field.name] !== field.value)) && // a form may begin with one that the user cannot list
            values[field.name] &&
            !found.some(one => one.value === values[field.name])
          )
            set('');
        },
        failure => {
          if (!wanted) return;
          setKnown({text: settled, options: []});
          setError(failure.message);
        },
      );
      return () => {
        wanted = false;
      };
    },
    [settled, ...(field.depends ?? []).map(name => values[name])],
  );
  const help = field.help || error;
  const common = {id, name: field.name, required: field.required, 'aria-describedby': help ? id + '-help' : undefined};
  const said =
    help && html`<p class="help ${error ? 'bad' : ''}" id=${id + '-help'}>${error || t(field.help ?? '')}</p>`;
  if (field.type === 'check') {
    return html`<div class="field check"><label><input type="checkbox" ...${common} checked=${values[field.name]}
      onChange=${(/** @type {any} */ event) => set(event.target.checked)} /> ${t(field.label)}</label>${said}</div>`;
  }
  if (field.type === 'many') return html`<${Many} ...${{id, field, options, said, values, set}} />`;
  return html`<div class="field"><label for=${id}>${t(field.label)}${field.required ? '' : html` <span class="quiet">${t('optional')}</span>`}</label>
    ${field.type === 'find' && html`<input type="search" aria-label=${t('Find: {label}', {label: t(field.label)})} placeholder=${t('Find by name, address or id')} value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)} />`}
    ${control(field, options, values, set, common)}${field.below?.(values[field.name])}${said}</div>`;
}

/** @param {{id: string, field: Field, options: Option[] | null, said: any, values: Values, set: (value: any) => void}} props */
const Many = ({field, options, said, values, set}) => html`
  <fieldset class="field"><legend>${t(field.label)}</legend>
    <div class="many">${
      !options
        ? t('Loading …')
        : !options.length
          ? html`<span class="quiet">${t('There are none.')}</span>`
          : options.map(
              option => html`
      <label><input type="checkbox" name=${field.name} value=${option.value} checked=${values[field.name].includes(option.value)}
        onChange=${(/** @type {any} */ event) =>
          set(
            event.target.checked
              ? [...values[field.name], option.value]
              : values[field.name].filter((/** @type {string} */ one) => one !== option.value),
          )} />
        <span>${option.label}</span>${option.note && html`<span class="quiet">${option.note}</span>`}</label>`,
            )
    }</div>${said}</fieldset>`;

/**
 * @param {Field} field @param {Option[] | null} options @param {Values} values @param {(value: any) => void} set
 * @param {Record<string, any>} common
 */
function control(field, options, values, set, common) {
  const value = values[field.name];
  const typed = (/** @type {any} */ event) => set(event.target.value);
  if (field.type === 'select' || field.type === 'find') {
    // without its options the field is empty, so it is required if it has a choice: no form is sent with one that is not shown
    return html`<select ...${common} required=${field.required || (!options && !!value)} value=${options ? value : ''} onChange=${typed} aria-busy=${!options}>
      ${(field.none || !field.required || !options || !value) && html`<option value="">${options ? (field.none ? t(field.none) : '–') : t('Loading …')}</option>`}
      ${(options ?? []).map(option => html`<option key=${option.value} value=${option.value} selected=${option.value === value}>${Array.isArray(field.options) ? t(option.label) : option.label}${option.note ? ` · ${option.note}` : ''}</option>`)}
    </select>`;
  }
  if (field.type === 'textarea')
    return html`<textarea ...${common} rows="4" spellcheck="false" onInput=${typed} value=${value}></textarea>`;
  if (field.type === 'file')
    return html`<input type="file" ...${common} onChange=${(/** @type {any} */ event) => set(event.target.files[0] ?? null)} />`;
  return html`${field.suggestions && html`<datalist id=${`${common.id}-known`}>${field.suggestions.map(one => html`<option value=${one} />`)}</datalist>`}<input type=${field.type ?? 'text'} ...${common} list=${field.suggestions && `${common.id}-known`} min=${field.min} max=${field.max} pattern=${field.pattern} value=${value}
    autocomplete=${field.type === 'password' ? 'new-password' : 'off'} onInput=${typed} />`;
}
