// What the dashboard uses of hooks.mjs, for the type checker.
export function useState<T>(initial: T | (() => T)): [T, (value: T | ((before: T) => T)) => void];
export function useEffect(effect: () => void | (() => void), depends?: any[]): void;
export function useLayoutEffect(effect: () => void | (() => void), depends?: any[]): void;
export function useRef<T>(initial: T): {current: T};
export function useMemo<T>(make: () => T, depends: any[]): T;
export function useCallback<T>(callback: T, depends: any[]): T;
export function useReducer<S, A>(reducer: (state: S, action: A) => S, initial: S): [S, (action: A) => void];
