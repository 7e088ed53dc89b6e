"use strict";
// The source of runs: the server, or the data in an exported page.
{
  /** A run: the header of an answer, and a function that returns its numbers. */
  lab.decode = (buffer) => {
    const length = new DataView(buffer).getUint32(0, true);
    const run = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
    const numbers = new Float32Array(buffer, 4 + length);
    run.values = (place) => (place ? numbers.subarray(place[0], place[0] + place[1]) : null);
    return run;
  };

  const failed = (text) => ({ errors: [{ line: null, text }], lost: true });

  lab.token = new URLSearchParams(location.search).get("token");
  lab.post = async (path, question) => {
    const headers = { "content-type": "application/json", "x-lasthop-token": lab.token };
    if (lab.student) headers["x-lasthop-student"] = lab.student.ticket;
    const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(question) });
    if (answer.status === 401) location.reload(); // the lab of the class was restarted, so the student joins again
    return answer;
  };

  const fromServer = async (question) => {
    try {
      const answer = await lab.post("/ask", question);
      if (answer.status === 409) return null;
      if (answer.ok) return lab.decode(await answer.arrayBuffer());
      return { ...failed(""), ...(await answer.json()) };
    } catch {
      return failed("The lab does not respond. Is 'lasthop lab' still running?");
    }
  };

  const unpacked = async (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).arrayBuffer();
  };

  const fromPage = async (question) => {
    const run = lab.config.exported.runs.find((each) => each.key === question.key) || lab.config.exported.runs[0];
    return lab.decode(await unpacked(question.ask === "look" ? run.look : run.story));
  };

  /** The positions of the controls of an exported page, and the keys of its runs. */
  lab.positions = {};
  for (const knob of lab.config.exported ? lab.config.exported.knobs : []) lab.positions[knob.path] = knob.start;
  lab.keyOf = (levels) => {
    const position = lab.config.exported.knobs.map((knob) => knob.positions[lab.positions[knob.path]]);
    return JSON.stringify([position, Object.fromEntries(Object.entries(levels).sort(([a], [b]) => (a < b ? -1 : 1)))]);
  };

  lab.ask = lab.config.exported ? fromPage : fromServer;
  lab.askResults = async (question) => (await lab.post("/results", question)).json();
}
