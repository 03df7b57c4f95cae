/** `lazy`: a screen or a part of one whose code is loaded when it is first shown, so that what comes first is there sooner. */

import type { ComponentType } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { HallError } from '../api/client';
import { ErrorState, Waiting } from '../ui/states';

/** The component that `load` imports; grey bars until it is there, and why if it does not come. */
export function lazy<Props extends object>(load: () => Promise<ComponentType<Props>>): ComponentType<Props> {
  let loaded: ComponentType<Props> | undefined;
  return function Lazy(props: Props) {
    const [problem, setProblem] = useState<HallError | null>(null);
    const [, setReady] = useState(loaded !== undefined);
    const start = () => {
      setProblem(null);
      load().then(
        (component) => {
          loaded = component;
          setReady(true);
        },
        (error: Error) => setProblem(new HallError(0, 'not_loaded', error.message)),
      );
    };
    useEffect(() => {
      if (!loaded) start();
    }, []);
    if (loaded) {
      const Loaded = loaded;
      return <Loaded {...props} />;
    }
    return problem ? <ErrorState error={problem} again={start} /> : <Waiting rows={6} />;
  };
}
