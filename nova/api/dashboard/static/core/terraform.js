// "Show as Terraform": a resource of the OpenStack provider, in HCL.

/** An expression that is not quoted, as a reference to another resource. */
class Expression {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
  }
}

/** @param {string} text  as openstack_networking_network_v2.net.id */
export const expression = text => new Expression(text);

/** A map, which is written as an attribute; undefined without entries. @param {Record<string, any>} entries */
export const map = entries =>
  Object.keys(entries).length
    ? expression(
        `{${Object.entries(entries)
          .map(([key, value]) => `${quoted(key)} = ${quoted(value)}`)
          .join(', ')}}`,
      )
    : undefined;

/** A quoted string of HCL: ${ and %{ begin templates there. @param {any} value */
const quoted = value => JSON.stringify(String(value)).replace(/([$%])\{/g, '$1$1{');

/** @param {any} value @returns {string} */
function written(value) {
  if (value instanceof Expression) return value.text;
  if (Array.isArray(value)) return `[${value.map(written).join(', ')}]`;
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : quoted(value);
}

const absent = (/** @type {any} */ value) =>
  value === undefined || value === null || value === '' || (Array.isArray(value) && !value.length);

/** A name of Terraform from a name of the cloud. @param {any} name */
export const label = name => String(name || 'this').replace(/[^\w-]/g, '_').replace(/^(?=[\d-])/, '_');

/**
 * A resource; absent values are left out. An object is a block, an array of objects several of them.
 * @param {string} type  without openstack_, as networking_network_v2
 * @param {any} name
 * @param {Record<string, any>} attributes
 */
export function terraform(type, name, attributes) {
  /** @type {string[]} */
  const lines = [];
  for (const [key, value] of Object.entries(attributes)) {
    if (absent(value)) continue;
    const blocks = (Array.isArray(value) ? value : [value]).filter(
      one => typeof one === 'object' && !(one instanceof Expression),
    );
    if (!blocks.length) lines.push(`  ${key} = ${written(value)}`);
    for (const block of blocks) {
      lines.push(`  ${key} {`);
      for (const [part, one] of Object.entries(block)) if (!absent(one)) lines.push(`    ${part} = ${written(one)}`);
      lines.push('  }');
    }
  }
  return `resource "openstack_${type}" "${label(name)}" {\n${lines.join('\n')}\n}`;
}
