// SPDX-License-Identifier: GPL-2.0

//! `parity [--all] DIFFERENCES CASES...`: runs cases by the kernel's implementation and by ours, one
//! after the other, and tells where they differ. In a virtual machine, as root. With `--all` each of the
//! differences has to occur.

use std::{
    collections::HashSet,
    env,
    fs,
    io,
    path::Path,
    process::ExitCode,
    time::{
        Duration,
        Instant, //
    }, //
};

use parity::{
    case::{
        self,
        Case, //
    },
    difference::{
        self,
        Difference, //
    },
    observe::{
        Observed,
        Side,
        Tracefs, //
    },
    workload, //
};

/// What is counted over all cases.
#[derive(Default)]
struct Sum {
    passed: usize,
    failed: usize,
    kernel: Duration,
    ours: Duration,
    /// The lines of the differences that occurred.
    differences: HashSet<usize>,
}

fn main() -> ExitCode {
    match run() {
        Ok(sum) => {
            println!("{} passed, {} failed", sum.passed, sum.failed);
            if sum.failed == 0 && sum.passed > 0 {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            eprintln!("parity: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> io::Result<Sum> {
    let mut arguments = env::args().skip(1).peekable();
    let is_all = arguments.next_if_eq("--all").is_some();
    let path = arguments
        .next()
        .ok_or_else(|| io::Error::other("usage: parity [--all] DIFFERENCES CASES..."))?;
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let differences = difference::parse(&fs::read_to_string(&path)?, &release, env::consts::ARCH)
        .map_err(|error| io::Error::other(format!("{path}: {error}")))?;
    let tracefs = Tracefs::new()?;
    workload::prepare()?;

    let mut sum = Sum::default();
    for path in arguments {
        let cases = case::parse(&fs::read_to_string(&path)?)
            .map_err(|error| io::Error::other(format!("{path}: {error}")))?;
        let name = Path::new(&path)
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        println!("{name}: {} cases", cases.len());
        for case in &cases {
            let place = format!("{name}:{}", case.line);
            // For the kernel's log, should it have to say something.
            fs::write("/dev/kmsg", format!("parity: {place}\n"))?;
            if let Err(error) = check(&tracefs, case, &differences, &place, &mut sum) {
                println!("{place}: {}\n  cannot be run: {error}", case.commands[0]);
                sum.failed += 1;
            }
        }
    }
    for difference in &differences {
        if is_all && !sum.differences.contains(&difference.line) {
            println!("differences:{}: does not occur", difference.line);
            sum.failed += 1;
        }
    }
    let cases = u32::try_from(sum.passed + sum.failed).map_or(1, |cases| cases.max(1));
    println!(
        "the kernel: {:?} for a case; ours: {:?}; {} differences on purpose",
        sum.kernel / cases,
        sum.ours / cases,
        sum.differences.len()
    );
    Ok(sum)
}

/// Runs a case, and tells where the two differ.
fn check(
    tracefs: &Tracefs,
    case: &Case,
    differences: &[Difference],
    place: &str,
    sum: &mut Sum,
) -> io::Result<()> {
    let start = Instant::now();
    let kernel = tracefs.observe(case, Side::Kernel)?;
    let middle = Instant::now();
    let ours = tracefs.observe(case, Side::Ours)?;
    sum.kernel += middle - start;
    sum.ours += middle.elapsed();

    let mut faults = Vec::new();
    // Where one refuses what the other accepts, all that is worth telling is what it says of it.
    let mut is_refused = false;
    // Where other errors are told, they are in other places.
    let mut is_told_otherwise = false;
    for ((what, kernel), (_, ours)) in kernel.iter().zip(&ours) {
        let follows = match *what {
            "error log" => false,
            "carets" => is_refused || is_told_otherwise,
            _ => is_refused,
        };
        if kernel == ours || follows {
            continue;
        }
        let known = differences
            .iter()
            .find(|difference| difference.is(case, what, kernel, ours));
        is_refused |= *what == "result";
        is_told_otherwise |= *what == "error log";
        match known {
            Some(difference) => {
                sum.differences.insert(difference.line);
                if *what == "result" {
                    break;
                }
            }
            None => faults.push(format!("{what}:\n{}", lines_that_differ(kernel, ours))),
        }
    }
    if is_idle(&kernel) && is_idle(&ours) {
        faults.push("nothing was recorded".to_string());
    }
    if faults.is_empty() {
        sum.passed += 1;
        return Ok(());
    }
    sum.failed += 1;
    println!("{place}: {}", case.commands.join("\n\tthen "));
    for fault in faults {
        println!("  {}", fault.trim_end());
    }
    Ok(())
}

/// Were there events enabled that recorded nothing? That compares nothing.
fn is_idle(observed: &Observed) -> bool {
    let seen = |name| {
        let mut named = observed.iter().filter(|(what, _)| *what == name);
        named.next().map(|(_, text)| text.as_str())
    };
    let is_enabled = |results: &str| results.lines().any(|result| result == "1");
    seen("trace") == Some("") && seen("enable").is_some_and(is_enabled)
}

/// The kernel's lines with a `-`, ours with a `+`, without those at the start and at the end that
/// are the same.
fn lines_that_differ(kernel: &str, ours: &str) -> String {
    let (kernel, ours): (Vec<_>, Vec<_>) = (kernel.lines().collect(), ours.lines().collect());
    let same =
        |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| pairs.take_while(|(a, b)| a == b).count();
    let start = same(&mut kernel.iter().zip(&ours));
    let end = same(&mut kernel[start..].iter().rev().zip(ours[start..].iter().rev()));
    let lines = |sign, lines: &[&str]| -> String {
        let lines = &lines[start..lines.len() - end];
        lines
            .iter()
            .map(|line| format!("    {sign}{line}\n"))
            .collect()
    };
    lines('-', &kernel) + &lines('+', &ours)
}
