"use strict";
// The model of `compact.py` in the browser: predictions of a row at any rank, and its best columns that it has not seen.

function unpacked(text, Kind) {
  return new Kind(Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0)).buffer);
}

class Model {
  constructor(given) {
    Object.assign(this, given);
    this.U = { steps: given.U.steps, numbers: unpacked(given.U.numbers, Int16Array) };
    this.V = { steps: given.V.steps, numbers: unpacked(given.V.numbers, Int16Array) };
    for (const name of ["path", "row_offsets", "col_offsets"]) this[name] = unpacked(given[name], Float32Array);
    this.numberOf = new Map(given.rows.map((name, number) => [name, number]));
    if (given.seen) this.readSeen();
    if (given.best) this.readBest();
  }

  readSeen() {
    const counts = unpacked(this.seen.counts, Uint32Array);
    this.seenPlaces = unpacked(this.seen.places, Uint16Array);
    this.seenStarts = [0];
    counts.forEach((count, row) => this.seenStarts.push(this.seenStarts[row] + count));
  }

  readBest() {
    this.bestPlaces = unpacked(this.best.places, Int32Array);
    this.bestPredictions = unpacked(this.best.predictions, Float32Array);
  }

  // Predictions on the link scale of one row and every column: offsets + sum_k theta_k U_rk V_ck.
  predict(row, rank) {
    const { longest, U, V } = this;
    const left = Array.from({ length: rank }, (_, k) =>
      this.path[(rank - 1) * longest + k] * U.steps[k] * V.steps[k] * U.numbers[row * longest + k]);
    return Float64Array.from(this.cols, (_, col) => {
      let sum = this.constant + this.row_offsets[row] + this.col_offsets[col];
      for (let k = 0; k < rank; k++) sum += left[k] * V.numbers[col * longest + k];
      return sum;
    });
  }

  // The n best columns among those that the row has not seen: [{ col, linked }]. At the model's own rank they are those
  // that the page lists, if it does; else those of largest prediction.
  recommend(row, rank, n) {
    return (this.best && rank === this.rank ? this.listed(row) : this.ranked(row, rank)).slice(0, n);
  }

  listed(row) {
    const width = this.bestPlaces.length / this.rows.length, first = row * width;
    return Array.from({ length: width }, (_, k) =>
      ({ col: this.bestPlaces[first + k], linked: this.bestPredictions[first + k] })).filter(({ col }) => col >= 0);
  }

  ranked(row, rank) {
    const linked = this.predict(row, rank);
    const seen = new Set(this.seen ? this.seenPlaces.subarray(this.seenStarts[row], this.seenStarts[row + 1]) : []);
    const unseen = [...linked.keys()].filter((col) => !seen.has(col));
    unseen.sort((one, other) => linked[other] - linked[one] || one - other);
    return unseen.map((col) => ({ col, linked: linked[col] }));
  }

  // The row of exactly that name, else the only one that differs in case and spaces alone; null if there is none.
  find(name) {
    if (this.numberOf.has(name)) return this.numberOf.get(name);
    const bare = (text) => text.toLowerCase().replace(/\s+/g, "");
    const typed = bare(name);
    const alike = this.rows.flatMap((other, number) => (bare(other) === typed ? [number] : []));
    return alike.length === 1 ? alike[0] : null;
  }
}

function onResponse(link, x) {
  if (link === "logit") return 1 / (1 + Math.exp(-x));
  return link === "log" ? Math.exp(x) : x;
}
