/** A deadline that stands still while a person is asked. */

const LONGEST = 2 ** 31 - 1; // what a timer of Node can wait, in milliseconds

export class Deadline {
  #left: number;
  #held = 0;
  #since = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(
    seconds: number | null,
    private readonly over: () => void,
  ) {
    this.#left = seconds === null ? Number.POSITIVE_INFINITY : seconds * 1000;
    this.#run();
  }

  /** Hold it for as long as this takes. */
  async hold<T>(work: Promise<T>): Promise<T> {
    if (this.#held++ === 0) this.#pause();
    try {
      return await work;
    } finally {
      if (--this.#held === 0) this.#run();
    }
  }

  /** It is no longer needed, however often it is held after this. */
  stop(): void {
    this.#pause();
    this.#left = Number.POSITIVE_INFINITY;
  }

  #run(): void {
    if (!Number.isFinite(this.#left)) return;
    this.#since = performance.now();
    this.#timer = setTimeout(this.over, Math.min(Math.max(this.#left, 0), LONGEST));
  }

  #pause(): void {
    clearTimeout(this.#timer);
    this.#left -= performance.now() - this.#since;
  }
}
