// SPDX-License-Identifier: GPL-2.0

//! `rkprobe net`: which programs make and accept TCP connections, what is sent again, and which packets are dropped?

use std::{
    cmp::Reverse,
    collections::{
        BTreeMap,
        HashMap, //
    }, //
};

use probe::btf::TypeKind;
use serde::Serialize;
use serde_json::json;

use crate::{
    btf,
    by::{
        By,
        Who, //
    },
    context::Context,
    draw::{
        Bar,
        Screen, //
    },
    duration,
    errno,
    failure::Result,
    functions::Method,
    hist::Hist,
    objects,
    probes,
    record::{
        name_of,
        Record, //
    },
    sockets,
    spread::Spread,
    stream,
    table::{
        self,
        Cell,
        Image,
        Options,
        Question,
        Slice, //
    },
    tally::{
        self,
        Hit, //
    },
    whom::Whom, //
};

/// The events, in the order in which they are enabled. A drop has no task, so the last event is for runs that trace all
/// tasks.
const EVENTS: [&str; 5] = ["state", "again", "accept", "connect", "drop"];
/// The function that gives a program a connection from outside.
const ACCEPT: &str = "inet_csk_accept";
/// The states of TCP in which a connection is complete, begins, and has ended.
const ESTABLISHED: u64 = 1;
const SYN_SENT: u64 = 2;
const CLOSE: u64 = 7;
/// C: `IPPROTO_TCP`.
const TCP: u64 = 6;
/// The last reason for a drop that is none. C: `SKB_DROP_REASON_NOT_SPECIFIED`.
const NO_REASON: u64 = 2;

/// Equal events of the network.
#[derive(Serialize)]
struct Row {
    event: String,
    /// The other end of the connection, or the function that drops packets.
    place: String,
    /// The error of a connection, its state when a packet was sent again, or the reason for a drop.
    #[serde(skip_serializing_if = "String::is_empty")]
    detail: String,
    #[serde(flatten)]
    who: Who,
    count: u64,
    /// The durations of connects.
    #[serde(skip_serializing_if = "Option::is_none")]
    average_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_ns: Option<u64>,
}

impl Row {
    /// The words of the row that are not empty.
    fn words(&self) -> String {
        let words = [&self.event, &self.place, &self.detail, &self.who.name];
        let words: Vec<&str> = words
            .into_iter()
            .map(String::as_str)
            .filter(|word| !word.is_empty())
            .collect();
        words.join(" ")
    }

    fn show(&self) -> String {
        let show = |ns: Option<u64>| ns.map_or(String::new(), duration::show);
        format!(
            "{:>8}  {:>8}  {:>8}  {}\n",
            self.count,
            show(self.average_ns),
            show(self.max_ns),
            self.words()
        )
    }
}

/// A click on an event in a trace shows this.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    who: Who,
    #[serde(skip_serializing_if = "str::is_empty")]
    detail: &'a str,
}

/// A connection that has not ended.
struct Connection {
    who: String,
    peer: String,
    /// The time of the start, until it is complete.
    start: Option<u64>,
}

/// The question.
struct Net {
    /// How the events of a place are divided.
    by: Option<By>,
    /// The names of the reasons for drops.
    reasons: Vec<(String, u64)>,
    /// Whether events of unknown connections count.
    is_for_all: bool,
    /// The connections of programs that the run knows, by the addresses of their sockets.
    known: HashMap<String, Connection>,
}

fn hit(event: &str, place: String, detail: String, who: String, ns: u64) -> Vec<Hit> {
    vec![Hit {
        keys: vec![event.into(), place, detail, who],
        ns: Some(ns),
        ..Hit::default()
    }]
}

impl Net {
    fn reason(&self, number: u64) -> String {
        let name = self.reasons.iter().find(|(_, value)| *value == number);
        name.map_or(format!("reason {number}"), |(name, _)| name.clone())
    }

    /// The change of a connection's state.
    fn change(&mut self, socket: &str, record: &Record<'_>) -> Vec<Hit> {
        let new = record.number("new");
        let Some(connection) = self.known.get_mut(socket) else {
            return Vec::new();
        };
        if !matches!(new, ESTABLISHED | CLOSE) {
            return Vec::new();
        }
        let hits = connection.start.take().map(|start| {
            let error = record.number("err");
            let detail = match (new, error) {
                (ESTABLISHED, _) => String::new(),
                (_, 0) => "closed".into(),
                _ => errno::name(error),
            };
            let (peer, who) = (connection.peer.clone(), connection.who.clone());
            let ns = record.time.saturating_sub(start);
            hit("connect", peer, detail, who, ns)
        });
        if new == CLOSE {
            self.known.remove(socket);
        }
        hits.unwrap_or_default()
    }
}

impl Question for Net {
    type Row = Row;

    const ROWS: &'static str = "events";

    const COLUMNS: &'static [&'static str] = &["count", "name", "place", "avg", "max"];

    fn title(&self) -> String {
        "net".into()
    }

    fn take(&mut self, event: usize, record: &Record<'_>) -> Vec<Hit> {
        let socket = record.field("sk").unwrap_or("");
        let who = By::name_of(self.by, record);
        match EVENTS[event] {
            "connect" => {
                let connection = Connection {
                    who,
                    peer: sockets::peer(record),
                    start: Some(record.time),
                };
                self.known.insert(socket.into(), connection);
                Vec::new()
            }
            "accept" if objects::is_address(socket) => {
                let connection = Connection {
                    who: who.clone(),
                    peer: sockets::peer(record),
                    start: None,
                };
                self.known.insert(socket.into(), connection);
                let port = record.number("own_port");
                let place = format!(":{port} from {}", sockets::address(record));
                hit("accept", place, String::new(), who, 0)
            }
            "state" => self.change(socket, record),
            "again" => {
                let known = self.known.get(socket);
                if known.is_none() && !self.is_for_all {
                    return Vec::new();
                }
                let who = known.map_or(String::new(), |connection| connection.who.clone());
                let state = sockets::state(record.number("state"));
                hit("retransmit", sockets::peer(record), state, who, 0)
            }
            "drop" => {
                let place = record.field("place").unwrap_or("");
                let function = name_of(place);
                let reason = self.reason(record.number("reason"));
                hit("drop", function.into(), reason, String::new(), 0)
            }
            _ => Vec::new(),
        }
    }

    /// A connect takes its time. Other events are moments.
    fn slice(&self, _: &Record<'_>, hit: &Hit) -> Option<Slice> {
        let [event, place, detail, who] = &hit.keys[..] else {
            return None;
        };
        let shown = Shown {
            who: Who::new(self.by, who.clone()),
            detail,
        };
        Some(Slice {
            name: format!("{event} {place}"),
            is_of_thread: false,
            arguments: json!(shown),
        })
    }

    /// Connections first, and the most frequent events of a kind first.
    fn rows(&mut self, hists: &[Hist]) -> Vec<Row> {
        let mut groups: BTreeMap<&[String], Spread> = BTreeMap::new();
        for row in hists.iter().flat_map(|hist| &hist.rows) {
            let (keys, ns) = tally::split(row);
            groups.entry(keys).or_default().add(ns, row.hits);
        }
        let row = |(keys, spread): (&[String], Spread)| {
            let key = |index: usize| keys.get(index).cloned().unwrap_or_default();
            let has_time = key(0) == "connect";
            Row {
                event: key(0),
                place: key(1),
                detail: key(2),
                who: Who::new(self.by, key(3)),
                count: spread.count(),
                average_ns: has_time.then(|| spread.average()),
                max_ns: has_time.then(|| spread.max()),
            }
        };
        let mut rows: Vec<Row> = groups.into_iter().map(row).collect();
        let rank = |row: &Row| match &*row.event {
            "connect" => 0,
            "accept" => 1,
            "retransmit" => 2,
            _ => 3,
        };
        rows.sort_by_key(|row| (rank(row), Reverse(row.count)));
        rows
    }

    fn cell<'r>(row: &'r Row, column: &str) -> Cell<'r> {
        match column {
            "name" => Cell::Text(&row.who.name),
            "place" => Cell::Text(&row.place),
            "avg" => row.average_ns.unwrap_or(0).into(),
            "max" => row.max_ns.unwrap_or(0).into(),
            _ => row.count.into(),
        }
    }

    fn show(&self, rows: &[Row], _: Screen) -> String {
        match rows {
            [] => "0 connections, retransmits and drops\n".into(),
            rows => {
                let head = format!("{:>8}  {:>8}  {:>8}\n", "count", "average", "longest");
                head + &rows.iter().map(Row::show).collect::<String>()
            }
        }
    }

    fn image<'r>(&'r self, rows: &'r [Row]) -> (String, Image<'r>) {
        let bar = |row: &Row| Bar {
            label: row.words(),
            value: row.count,
        };
        let title = "connections, retransmits and drops".into();
        (title, Image::Bars(rows.iter().map(bar).collect()))
    }
}

/// The commands of all events. The tasks of the run are those that connect and accept.
fn commands(group: &str, ipv6: Option<u32>, whom: &Whom) -> Vec<Vec<String>> {
    let sk = sockets::fetch_arguments("sk", ipv6);
    let accepted = sockets::fetch_arguments("$retval", ipv6);
    let (and, clause) = (whom.and(), whom.clause());
    let accept = probes::at_return(ACCEPT, group, "accept").into_iter();
    vec![
        vec![format!(
            "t:{group}/state inet_sock_set_state sk=sk:x64 new=newstate:u32 err=sk->sk_err:u32 \
             if sk->sk_protocol:u16 == {TCP} && newstate:u32 != {SYN_SENT}"
        )],
        vec![format!(
            "t:{group}/again tcp_retransmit_skb{sk} state=sk->__sk_common.skc_state:u8"
        )],
        accept
            .map(|command| format!("{command}{accepted} comm=$comm{clause}"))
            .collect(),
        vec![format!(
            "t:{group}/connect inet_sock_set_state{sk} comm=$comm \
             if sk->sk_protocol:u16 == {TCP} && newstate:u32 == {SYN_SENT}{and}"
        )],
        vec![format!(
            "t:{group}/drop kfree_skb reason=reason:u32 place=location:symbol if reason > {NO_REASON}"
        )],
    ]
}

/// The names of the reasons for drops, without their prefix.
fn reasons() -> Vec<(String, u64)> {
    let names = btf::with(None, |btf| {
        let ty = btf.get(btf.find("skb_drop_reason", TypeKind::Enum)?)?;
        let short = |name: &str| {
            let name = name.strip_prefix("SKB_DROP_REASON_").unwrap_or(name);
            name.to_string()
        };
        let all = btf.enumerators(ty);
        Some(
            all.map(|(name, value)| (short(name), value as u64))
                .collect(),
        )
    });
    names.flatten().unwrap_or_default()
}

/// Runs the command.
pub fn run(context: &Context, by: Option<By>, options: &Options<'_>) -> Result {
    context.functions.check(ACCEPT, Method::Any)?;
    let ipv6 = sockets::ipv6_offset();
    let is_for_all = !context.whom.selects_tasks();
    let count = EVENTS.len() - usize::from(!is_for_all);
    let stream = stream::Options {
        needs_clock: true,
        lacks_place: true,
        ..stream::Options::default()
    };
    let question = Net {
        by,
        reasons: reasons(),
        is_for_all,
        known: HashMap::new(),
    };
    let commands = |_: &Net, group: &str| {
        let mut all = commands(group, ipv6, &context.whom);
        all.truncate(count);
        all
    };
    table::run_records(
        context,
        &EVENTS[..count],
        &stream,
        question,
        commands,
        options,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(by: Option<By>, is_for_all: bool, lines: &[&str]) -> Vec<String> {
        let mut question = Net {
            by,
            reasons: vec![("NO_SOCKET".into(), 3)],
            is_for_all,
            known: HashMap::new(),
        };
        let mut take = |event: usize, record: &Record<'_>| question.take(event, record);
        let hist = tally::table_of(&EVENTS, lines, &mut take);
        let rows = question.rows(&[hist]);
        rows.iter().map(Row::show).collect()
    }

    const LINES: [&str; 8] = [
        "a-1 [000] ..... 1.000001: connect: (f+0x4/0x10) sk=0xff01 family=2 address=0x100007f port=0x5000 comm=\"nc\"",
        "a-1 [000] ..... 1.000002: connect: (f+0x4/0x10) sk=0xff02 family=2 address=0x100007f port=0x900 comm=\"nc\"",
        "k-0 [000] ..... 1.000003: state: (f+0x4/0x10) sk=0xff02 new=7 err=111",
        "k-0 [000] ..... 1.000004: again: (f+0x4/0x10) sk=0xff01 family=2 address=0x100007f port=0x5000 state=2",
        "k-0 [000] ..... 1.000004: again: (f+0x4/0x10) sk=0xff09 family=2 address=0x100007f port=0x5000 state=1",
        "k-0 [000] ..... 1.000011: state: (f+0x4/0x10) sk=0xff01 new=1 err=0",
        "h-2 [000] ..... 1.000012: accept: (f+0x4/0x10) sk=0xff03 family=2 address=0x100007f port=0x5000 own_port=80 \
         comm=\"httpd\"",
        "k-0 [000] ..... 1.000013: drop: (f+0x4/0x10) reason=3 place=tcp_v4_rcv+0x1/0x2",
    ];

    #[test]
    #[cfg(target_endian = "little")]
    fn events_belong_to_the_program_of_the_connection() {
        assert_eq!(
            rows(Some(By::Comm), true, &LINES),
            [
                "       1   10.0 us   10.0 us  connect 127.0.0.1:80 nc\n",
                "       1   1.00 us   1.00 us  connect 127.0.0.1:9 ECONNREFUSED nc\n",
                "       1                      accept :80 from 127.0.0.1 httpd\n",
                "       1                      retransmit 127.0.0.1:80 ESTABLISHED\n",
                "       1                      retransmit 127.0.0.1:80 SYN_SENT nc\n",
                "       1                      drop tcp_v4_rcv NO_SOCKET\n",
            ]
        );
        assert_eq!(rows(Some(By::Comm), false, &LINES).len(), 5);
        let question = Net {
            by: Some(By::Comm),
            reasons: Vec::new(),
            is_for_all: false,
            known: HashMap::new(),
        };
        let hits = hit("connect", ":80".into(), String::new(), "nc".into(), 5);
        let (_, end) = Record::parse_any(LINES[5], &EVENTS.map(String::from)).unwrap();
        let slice = question.slice(&end, &hits[0]).unwrap();
        assert_eq!(
            (&*slice.name, slice.arguments),
            ("connect :80", json!({"comm": "nc"}))
        );
        let by_place = rows(None, true, &LINES);
        assert!(by_place[0].ends_with("  connect 127.0.0.1:80\n"));
        let by_thread = rows(Some(By::Pid), true, &LINES);
        assert!(by_thread[0].ends_with("  connect 127.0.0.1:80 1\n"));
    }

    #[test]
    fn the_commands_are_right() {
        let all = commands("g", Some(56), &Whom::default());
        assert_eq!(all.len(), EVENTS.len());
        probes::check_all(&all).unwrap();
    }
}
