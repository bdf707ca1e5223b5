// "Show as command": the openstack command of what one is about to do.

const PLAIN = /^[\w@%+=:,./-]+$/;

/** A word of a shell command. @param {any} value */
export function word(value) {
  const text = String(value);
  return PLAIN.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/**
 * A command from its words; undefined, null, false and '' are left out.
 * Strings that begin with -- and a value come as pairs: ['--flavor', 'm1.tiny'].
 * @param {...(string | [string, any] | false | null | undefined)} words
 */
export function openstack(...words) {
  const said = ['openstack'];
  for (const one of words) {
    if (Array.isArray(one)) {
      if (one[1] !== undefined && one[1] !== null && one[1] !== '' && one[1] !== false) said.push(one[0], word(one[1]));
    } else if (one) {
      said.push(one);
    }
  }
  return said.join(' ');
}
