// SPDX-License-Identifier: GPL-2.0

//! Whether the output of the commands in JSON has the schema of Documentation/trace/rkprobe-tool.schema.json. The samples
//! are the output of json.tc in a virtual machine, which compares the names of members with the schema.

use serde_json::{
    json,
    Value as Json, //
};

const SCHEMA: &str = include_str!("../../../Documentation/trace/rkprobe-tool.schema.json");
const SAMPLES: &str = include_str!("../samples");

/// The schema of a command.
fn of_command(command: &str) -> jsonschema::Validator {
    let mut schema: Json = serde_json::from_str(SCHEMA).unwrap();
    schema["$ref"] = json!(format!("#/$defs/{command}"));
    jsonschema::validator_for(&schema).unwrap()
}

fn samples() -> impl Iterator<Item = (&'static str, Json)> {
    let lines = SAMPLES.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let (command, json) = line.split_once(' ').unwrap();
        (command, serde_json::from_str(json).unwrap())
    })
}

#[test]
fn the_output_of_each_command_has_its_schema() {
    for (command, json) in samples() {
        let schema = of_command(command);
        let errors: Vec<String> = schema
            .iter_errors(&json)
            .map(|error| format!("{}: {error}", error.instance_path))
            .collect();
        assert!(errors.is_empty(), "{command}: {errors:?}: {json}");
    }
}

#[test]
fn each_schema_has_a_sample_and_refuses_other_members() {
    let schema: Json = serde_json::from_str(SCHEMA).unwrap();
    let shared = ["value", "values", "missing", "way", "end"];
    for command in schema["$defs"].as_object().unwrap().keys() {
        if shared.contains(&&**command) {
            continue;
        }
        let of_it = samples().find(|(name, _)| name == command);
        let (_, mut json) = of_it.unwrap_or_else(|| panic!("no sample of {command}"));
        match &mut json {
            Json::Array(all) => all[0]["other"] = json!(1),
            one => one["other"] = json!(1),
        }
        assert!(!of_command(command).is_valid(&json), "{command}");
    }
}
