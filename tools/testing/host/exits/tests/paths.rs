// SPDX-License-Identifier: GPL-2.0

//! The comparison of paths with the executed instructions sees what differs, and only that.

use exits::paths::{
    Excluded,
    Paths,
    Report, //
};

/// Two functions: `f` has a gap, a part that was moved away, and a conditional tail call.
const GUEST: &str = "\
symbol 0100 0200 __x64_sys_sethostname
symbol 0200 0300 fixup_exception
symbol 1000 1100 f
symbol 2000 2100 f.cold
symbol 3000 3100 g
defined f1 f
defined f2 g
block f1 f+0x4 -> f+0x10 f.cold+0x0
block f1 f+0x10 -> f+0x20; not probed: the reason
block f1 f+0x20
block f1 f+0x30 -> f+0x20
block f1 f+0x38; not probed: the reason
block f1 f.cold+0x0 -> f.cold+0x8
block f1 f.cold+0x8 -> f+0x20
block f1 blocks: 7, 5 can be probed
exit f1 f+0x28 ret
exit f1 f.cold+0x4 conditional tail call -> g
exit f1 verdict: returns
block f2 g+0x0
exit f2 g+0x2 ret
  sh-1  [000] .....     1.000000: marker: (__x64_sys_sethostname+0x4/0x10)
  sh-1  [000] .....     8.000000: marker: (__x64_sys_sethostname+0x4/0x10)
profile f1 2 0
";

/// The record of a call of `f` at this second.
fn record(second: u32, path: &str, exit: u32) -> String {
    let blocks = path.split(' ').count();
    format!(
        "  sh-1  [000] .....     {second}.500000: f1: (h+0x4/0x8 <- f) path=\"{path}\" \
         blocks={blocks} at={exit:#x} ns=500000000\n"
    )
}

/// Compares records with the addresses that were executed, between the calls of the marker.
fn compare(records: &str, executed: &str) -> Report {
    let mut paths = Paths::default();
    paths.read(GUEST.as_bytes()).unwrap();
    paths.read(records.as_bytes()).unwrap();
    let log = format!("1004\n100\n104\n{executed} 100\n104\n1004\n");
    paths.follow(log.replace(' ', "\n").as_bytes()).unwrap();
    paths.compare().unwrap()
}

fn differences(records: &str, executed: &str) -> String {
    let report = compare(records, executed);
    assert_eq!(report.functions, 1, "{report}");
    report.differences.join("\n")
}

const DIRECT: &str = "1000 1004 1008 1010 1020 1024 1028";
const COLD: &str = "1000 1004 2000 2004 2008 200a 1020 1028";

#[test]
fn equal_paths() {
    let records =
        record(3, "+0x4 .cold+0x0 .cold+0x8 +0x20", 0x1028) + &record(2, "+0x4 +0x20", 0x1028);
    let report = compare(&records, &format!("{DIRECT} {COLD}"));
    assert_eq!(report.differences, [""; 0]);
    assert_eq!((report.functions, report.calls, report.paths), (1, 2, 2));
    assert_eq!((report.visits, report.gaps), (7, 1));
    assert_eq!(report.excluded[&Excluded::NotCalled], 1);
}

#[test]
fn a_conditional_tail_call_ends_the_call_or_not() {
    let records = record(2, "+0x4 .cold+0x0", 0x2004) + &record(3, "+0x4 +0x20", 0x1028);
    assert_eq!(
        differences(&records, &format!("1004 2000 2004 {DIRECT}")),
        ""
    );
}

#[test]
fn differing_paths() {
    for path in ["+0x4", "+0x4 +0x38", "+0x4 +0x20 +0x38", "+0x20 +0x4"] {
        let found = differences(&record(2, path, 0x1028), DIRECT);
        assert!(found.contains("but \"+0x4 +0x20\""), "{found}");
    }
    let found = differences(&record(3, "+0x10 +0x4 +0x20", 0x1028), DIRECT);
    assert!(found.contains("but \"+0x4 +0x10 +0x20\""), "{found}");
}

#[test]
fn a_gap_that_other_blocks_imply() {
    let record = record(3, "+0x4 +0x10 +0x20", 0x1028);
    assert_eq!(differences(&record, DIRECT), "");
}

#[test]
fn a_differing_exit() {
    let found = differences(&record(2, "+0x4 +0x20", 0x1024), DIRECT);
    assert_eq!(found, "f: 1 of 1 calls: exit 0x1024, but 0x1028");
}

#[test]
fn a_path_that_was_cut() {
    let record = record(2, "+0x4 ...", 0x1028).replace("blocks=2", "blocks=4");
    assert_eq!(differences(&record, COLD), "");
}

#[test]
fn blocks_are_entered_by_their_start_and_from_another() {
    let record = record(2, "+0x4 +0x20", 0x1028);
    let found = differences(&record, "1004 1012 1020 1028");
    assert!(
        found.contains("not entered by its first instruction: 0x1012"),
        "{found}"
    );
    let found = differences(&record, "1004 1020 1028");
    assert!(
        found.contains("does not name it: 0x1020 after 0x1004"),
        "{found}"
    );
    // After a fault, it can be any block.
    assert_eq!(differences(&record, "1004 200 204 1020 1028"), "");
}

#[test]
fn an_instruction_that_was_not_executed_after_all() {
    let log = "1004 -1004 1004 1010 1010 1020 -1020 1020 1028 3000 -3000";
    assert_eq!(differences(&record(2, "+0x4 +0x20", 0x1028), log), "");
}

#[test]
fn a_record_that_is_missing() {
    let found = differences(&record(2, "+0x4 +0x20", 0x1028), &[DIRECT; 3].join(" "));
    assert_eq!(found, "f: 1 records of 3 calls");
    let found = differences(&record(2, "+0x4 +0x20", 0x1028).repeat(2), DIRECT);
    assert_eq!(found, "f: 2 records of 1 calls");
}

#[test]
fn calls_of_another_time_have_records_that_do_not_count() {
    let records = record(1, "+0x30", 1) + &record(2, "+0x4 +0x20", 0x1028) + &record(9, "+0x30", 1);
    assert_eq!(
        differences(&records.replace("1.500000", "1.400000"), DIRECT),
        ""
    );
}

#[test]
fn calls_that_overlap_are_not_compared() {
    let record = |second| record(second, "+0x30", 1);
    let report = compare(
        &(record(2) + &record(3)),
        &format!("1004 1010 {DIRECT} 1020 1028"),
    );
    assert_eq!(report.functions, 0);
    assert_eq!(report.excluded[&Excluded::Overlap], 1);
}

#[test]
fn functions_that_are_not_compared() {
    assert_eq!(
        compare("", "1010 1020 1028").excluded[&Excluded::Entered],
        1
    );
    assert_eq!(compare("", "1004 1010").excluded[&Excluded::Unfinished], 1);
    let missed = "profile f1 2 1\n".to_owned() + &record(2, "+0x4", 1);
    assert_eq!(compare(&missed, DIRECT).excluded[&Excluded::Missed], 1);
}

#[test]
fn the_log_has_both_calls_of_the_marker() {
    let mut paths = Paths::default();
    paths.read(GUEST.as_bytes()).unwrap();
    assert!(paths.follow("100\n104\n".as_bytes()).is_err());
}
