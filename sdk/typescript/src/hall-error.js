/** What can go wrong between a hall and whoever speaks to it. */
/** The hall's own word: it refuses. */
export class HallError extends Error {
    code;
    details;
    name = 'HallError';
    constructor(code, message, details = {}) {
        super(message);
        this.code = code;
        this.details = details;
    }
    /** It may say something else a moment later. */
    get passes() {
        return ['UNAVAILABLE', 'RATE_LIMITED', 'TIMEOUT', 'INTERNAL_ERROR'].includes(this.code);
    }
}
/** The hall cannot be reached, or does not answer. */
export class HallAway extends Error {
    name = 'HallAway';
}
