/** The plan of a query: its nodes with their figures, which move while tuples come. Any operator is drawn the same way. */
import { useEffect, useState } from "preact/hooks";
import type { ExplainResponseJson, PlanNodeJson } from "psoup-client/contract/psoup_proto/v1/queries_pb";
import { ask, PSoupError, words } from "../api/call";
import { instant, microsOf, number } from "../format";
import { amountFacts } from "../parts/amounts";
import { Choice, Head, Problem } from "../parts/basics";
import { boundFacts, patternWords } from "../parts/patterns";
import { Term, termName, termRank } from "../parts/terms";
import { kept, to } from "../state";

export function Plan({ id }: { id: string }) {
  const [told, problem] = useExplained(id);
  const [view, setView] = useState("nodes");
  const name = kept.value?.find((entry) => entry.queryId === id)?.name ?? id;
  const nodes = told?.nodes ?? [];
  return (
    <>
      <Head title={`Plan of ${name}`} back="#/">
        <a class="button" href={to("answer", id)}>
          Answer
        </a>
      </Head>
      {problem !== "" && <Problem>{problem}</Problem>}
      {told !== null && (
        <>
          <div class="tools">
            <Choice
              label="Show as"
              value={view}
              options={[
                ["nodes", "Nodes"],
                ["text", "Text"],
              ]}
              onChange={setView}
            />
          </div>
          {(told.notes ?? []).map((note) => (
            <p key={note} class="note">
              {note}
            </p>
          ))}
          {view === "text" ? (
            <pre class="lines" tabIndex={0}>
              {(told.lines ?? []).join("\n")}
            </pre>
          ) : (
            <>
              <Amount told={told} />
              {nodes.length > 0 && (
                <ul class="tree">
                  <Node node={nodes[0]!} nodes={nodes} />
                </ul>
              )}
            </>
          )}
        </>
      )}
    </>
  );
}

/** The amount of the query with its reason, and what the service keeps of the answer. */
function Amount({ told }: { told: ExplainResponseJson }) {
  const amount = amountFacts(told);
  if (amount === null) return null;
  return (
    <article class="node" data-operator="amount">
      <h2>
        <span class="operator">amount</span> {amount.words}
      </h2>
      <Figures figures={amount.figures} />
      <Facts facts={amount.facts} />
    </article>
  );
}

function Node({ node, nodes }: { node: PlanNodeJson; nodes: PlanNodeJson[] }) {
  const inputs = (node.inputs ?? []).flatMap((id) => nodes.find((other) => (other.id ?? 0) === id) ?? []);
  const figures = inOrder(node.figures ?? {}).filter(([name]) => !FACTOR.test(name));
  const facts = inOrder(node.facts ?? {}).filter(([name]) => !FACTOR.test(name));
  return (
    <li>
      <article class="node" data-operator={node.operator}>
        <h2>
          <span class="operator">{node.operator}</span> <bdi>{rest(node)}</bdi>
        </h2>
        {patternWords(node.updatePattern) !== "" && <p class="quiet small">Rows {patternWords(node.updatePattern)}.</p>}
        <Figures figures={figures.map(([name, value]) => [name, Number(value)])} />
        <Factors node={node} />
        <Facts facts={[...boundFacts(node.state), ...facts]} />
      </article>
      {inputs.length > 0 && (
        <ul>
          {inputs.map((input) => (
            <Node key={input.id} node={input} nodes={nodes} />
          ))}
        </ul>
      )}
    </li>
  );
}

function Figures({ figures }: { figures: [name: string, value: number][] }) {
  if (figures.length === 0) return null;
  return (
    <dl class="figures">
      {figures.map(([name, value]) => (
        <div key={name}>
          <dt>
            <Term name={name} />
          </dt>
          <dd data-figure={name}>{name === "selectivity" ? percent(value) : number(value)}</dd>
        </div>
      ))}
    </dl>
  );
}

function Facts({ facts }: { facts: [name: string, value: string][] }) {
  if (facts.length === 0) return null;
  return (
    <dl class="nodefacts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{termName(name)}</dt>
          <dd dir="auto" data-fact={name}>
            {shownFact(name, value)}
          </dd>
        </div>
      ))}
    </dl>
  );
}

const FACTOR = /^factor_\d+(_passes)?$/;

/** The conditions of a source, the most selective first. */
function Factors({ node }: { node: PlanNodeJson }) {
  const passes = (at: number): number => Number(node.figures?.[`factor_${at}_passes`]);
  const texts: string[] = [];
  for (let at = 1; node.facts?.[`factor_${at}`] !== undefined; at++) texts.push(node.facts[`factor_${at}`]!);
  if (texts.length === 0) return null;
  return (
    <section>
      <h3>
        Conditions, and the share of the newest {number(Number(node.figures?.sample ?? 0))} rows that satisfies each
      </h3>
      <ol class="factors">
        {texts.map((text, at) => (
          <li key={text}>
            <span dir="auto">{text}</span> <b data-figure={`factor_${at + 1}_passes`}>{percent(passes(at + 1))}</b>
          </li>
        ))}
      </ol>
    </section>
  );
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}

/** What a node does, without the word for what it is. */
function rest(node: PlanNodeJson): string {
  const text = node.text ?? "";
  const operator = node.operator ?? "";
  return text.toLowerCase().startsWith(operator) ? text.slice(operator.length).trim() : text;
}

/** A fact of a node; instants in the zone that is shown. */
function shownFact(name: string, value: string): string {
  return INSTANTS.has(name) && INSTANT.test(value) ? instant(microsOf(value.replace(" ", "T"))) : value;
}

const INSTANTS = new Set(["begin", "end", "given_up", "chosen_since", "eager_updated"]);
const INSTANT = /^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z$/;

/** Names and values in one order, whatever order the service sends them in. */
function inOrder<T>(of: Record<string, T>): [string, T][] {
  return Object.entries(of).sort(([one], [other]) => termRank(one) - termRank(other) || (one < other ? -1 : 1));
}

/** What Explain says, once a second while the page is seen. */
function useExplained(id: string): [ExplainResponseJson | null, string] {
  const [told, set] = useState<ExplainResponseJson | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    const end = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const look = async (): Promise<void> => {
      let again = true;
      try {
        if (!document.hidden) set(await ask<ExplainResponseJson>("QueryService/Explain", { queryId: id }, end.signal));
        setProblem("");
      } catch (wrong) {
        if (end.signal.aborted) return;
        again = !(wrong instanceof PSoupError && wrong.gone);
        setProblem(words(wrong));
      }
      if (!end.signal.aborted && again) timer = setTimeout(() => void look(), 1_000);
    };
    void look();
    return () => {
      end.abort();
      clearTimeout(timer);
    };
  }, [id]);
  return [told, problem];
}
