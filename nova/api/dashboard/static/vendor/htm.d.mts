// What the dashboard uses of htm.mjs, for the type checker.
declare const htm: {bind(h: any): (strings: TemplateStringsArray, ...values: any[]) => any};
export default htm;
