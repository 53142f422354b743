// SPDX-License-Identifier: GPL-2.0

//! See `scripts/exits-check` and `scripts/paths-check`, which run it.

use std::{
    env,
    error::Error,
    ffi::OsStr,
    fs::{
        self,
        File, //
    },
    io::BufReader,
    path::{
        Path,
        PathBuf, //
    },
    process::{
        Command,
        ExitCode, //
    },
};

use exits::{
    compare::{
        compare,
        Report, //
    },
    image::Image,
    listing::{
        self,
        FAULTS, //
    },
    live,
    paths::{
        Paths,
        ENOUGH, //
    }, //
};

const USAGE: &str = "usage: exits check [--all]|list FILE|DIRECTORY..., exits dump FILE,
    exits paths FOUND GUEST EXECUTED";

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().skip(1).map(PathBuf::from).collect();
    let result = match arguments.split_first() {
        Some((verb, paths)) if verb == Path::new("check") && !paths.is_empty() => {
            match paths.split_first() {
                Some((all, paths)) if all == Path::new("--all") => check(paths, true),
                _ => check(paths, false),
            }
        }
        Some((verb, paths)) if verb == Path::new("list") && !paths.is_empty() => list(paths),
        Some((verb, [path])) if verb == Path::new("dump") => dump(path),
        Some((verb, [found, guest, executed])) if verb == Path::new("paths") => {
            paths(&[found, guest], executed)
        }
        _ => Err(USAGE.into()),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("exits: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes the text of the kernel that runs.
fn dump(path: &Path) -> Result<ExitCode, Box<dyn Error>> {
    fs::write(path, live::image()?.to_elf())?;
    Ok(ExitCode::SUCCESS)
}

/// Compares files, and the modules in directories. Where they are all that there are, each fault of the
/// disassembler has to occur.
fn check(paths: &[PathBuf], are_all: bool) -> Result<ExitCode, Box<dyn Error>> {
    let (mut passed, mut failed) = (0, 0);
    let mut faults = [0; FAULTS.len()];
    for path in paths {
        let mut files = vec![];
        find(path, &mut files)?;
        let mut all = Report::default();
        for file in &files {
            let report =
                check_file(file).map_err(|error| format!("{}: {error}", file.display()))?;
            all.add(report);
        }
        println!("{}: {} files", path.display(), files.len());
        print!("{all}");
        if all.functions == 0 {
            return Err(format!("{}: no function in it", path.display()).into());
        }
        let differing = all.differing_functions.len() as u64;
        passed += all.functions - differing;
        failed += differing + all.differing_insns.len() as u64;
        for (count, more) in faults.iter_mut().zip(all.faults) {
            *count += more;
        }
    }
    for (fault, count) in FAULTS.iter().zip(faults) {
        if are_all && count == 0 {
            println!(
                "the disassembler knows {} now: it need not be listed",
                fault.bytes
            );
            failed += 1;
        }
    }
    println!("{passed} passed, {failed} failed");
    Ok(match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Prints the verdict on each function, and where its reason is.
fn list(paths: &[PathBuf]) -> Result<ExitCode, Box<dyn Error>> {
    let mut files = vec![];
    for path in paths {
        find(path, &mut files)?;
    }
    for file in &files {
        for line in check_file(file)?.list {
            println!("{line}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn check_file(path: &Path) -> Result<Report, Box<dyn Error>> {
    let bytes = match path.extension() {
        Some(extension) if extension == "xz" => {
            let output = Command::new("xz").arg("-dc").arg(path).output()?;
            match output.status.success() {
                true => output.stdout,
                false => return Err(String::from_utf8_lossy(&output.stderr).into()),
            }
        }
        _ => fs::read(path)?,
    };
    let image = Image::of_elf(&bytes)?;
    let listing = listing::disassemble(&image, &env::temp_dir())?;
    Ok(compare(&image, &listing))
}

/// Compares the paths of calls with the executed instructions.
fn paths(printed: &[&PathBuf], executed: &Path) -> Result<ExitCode, Box<dyn Error>> {
    let open = |path: &Path| {
        let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok::<_, Box<dyn Error>>(BufReader::new(file))
    };
    let mut paths = Paths::default();
    for path in printed {
        paths.read(open(path)?)?;
    }
    paths.follow(open(executed)?)?;
    let report = paths.compare()?;
    print!("{report}");
    let failed = report.differences.len();
    println!("{} passed, {failed} failed", report.functions - failed);
    if report.functions < ENOUGH {
        return Err(format!("only {} functions were compared", report.functions).into());
    }
    Ok(match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// The file at a path, or the modules below it.
fn find(path: &Path, found: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    if !path.is_dir() {
        found.push(path.to_owned());
        return Ok(());
    }
    let entries: Result<Vec<_>, _> = fs::read_dir(path)?.collect();
    let mut entries = entries?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        if !path.is_symlink()
            && (path.is_dir() || name.ends_with(".ko") || name.ends_with(".ko.xz"))
        {
            find(&path, found)?;
        }
    }
    Ok(())
}
