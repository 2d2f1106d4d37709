// What the scripts beside it share: calls are made in order, and each one's value or error printed as a line of JSON.
export async function printOutcomes(calls) {
  for (const [name, call] of calls) {
    let outcome;
    try {
      outcome = { value: (await call()) ?? null };
    } catch (error) {
      outcome = { error: error.name, code: error.code ?? null, text: error.message };
    }
    console.log(JSON.stringify({ name, outcome }));
  }
}
