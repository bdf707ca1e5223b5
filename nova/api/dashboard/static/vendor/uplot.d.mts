// What the dashboard uses of uplot.mjs, for the type checker.
export default class uPlot {
  constructor(options: any, data: any[], parent: Element);
  setData(data: any[]): void;
  setSize(size: {width: number; height: number}): void;
  destroy(): void;
}
