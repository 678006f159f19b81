//! The tasks of a simulation, from the steps that a store recorded.

use super::simulate::Task;
use crate::remote::recorded::Recorded;
use osbuild::engine::digest::Digest;
use std::collections::{BTreeMap, BTreeSet};

/// The layer with the images of pods. This process makes them from programs, so the layer's inputs
/// do not name those programs.
const IMAGES: &str = "layer images";

/// The starts of the names of steps whose result goes into an image as it is.
const PARTS: [&str; 5] = ["kernel ", "slotboot ", "systemd-boot-efi ", "data", "layer "];

/// The steps for a simulation, each after those that it needs. A worker takes as long for a step as
/// this machine did.
pub fn tasks(steps: &[Recorded]) -> Vec<Task> {
    let mut makers: BTreeMap<Digest, BTreeSet<usize>> = BTreeMap::new();
    for (index, step) in steps.iter().enumerate() {
        for output in step.result.outputs.values() {
            makers.entry(output.digest).or_default().insert(index);
        }
    }
    let made_by = |input: &Digest| makers.get(input).and_then(|all| all.first()).copied();
    let mut needs: Vec<BTreeSet<usize>> = steps
        .iter()
        .enumerate()
        .map(|(index, step)| {
            step.inputs.iter().filter_map(made_by).filter(|maker| *maker != index).collect()
        })
        .collect();
    let used: BTreeSet<usize> = needs.iter().flatten().copied().collect();
    let is_part = |name: &str| PARTS.iter().any(|part| name.starts_with(part));
    let in_images = |index: &usize| !used.contains(index) && !is_part(&steps[*index].name);
    if let Some(images) = steps.iter().position(|step| step.name == IMAGES) {
        needs[images].extend((0..steps.len()).filter(in_images));
    }
    in_order(steps, &needs)
}

/// The tasks in an order in which each comes after those that it needs.
fn in_order(steps: &[Recorded], needs: &[BTreeSet<usize>]) -> Vec<Task> {
    let mut places: BTreeMap<usize, usize> = BTreeMap::new();
    let mut tasks = Vec::new();
    while tasks.len() < steps.len() {
        let can_come = |index: &usize| needs[*index].iter().all(|need| places.contains_key(need));
        let next = (0..steps.len()).filter(|index| !places.contains_key(index)).find(can_come);
        // Files of different steps with the same bytes could make a circle. It is cut here.
        let rest = || (0..steps.len()).find(|index| !places.contains_key(index));
        let Some(index) = next.or_else(rest) else { break };
        let needs = needs[index].iter().filter_map(|need| places.get(need).copied()).collect();
        let Recorded { name, result, .. } = &steps[index];
        tasks.push(Task { name: name.clone(), time: result.wall, needs });
        places.insert(index, tasks.len() - 1);
    }
    tasks
}

#[cfg(test)]
mod tests {
    use super::*;
    use osbuild::engine::action::{ActionResult, OutputFile};

    fn step(name: &str, inputs: &[&str], output: &str) -> Recorded {
        let output = OutputFile { digest: Digest::of(output.as_bytes()), executable: false };
        let outputs = BTreeMap::from([("out".to_owned(), output)]);
        let inputs = inputs.iter().map(|input| Digest::of(input.as_bytes())).collect();
        let result = ActionResult { outputs, ..ActionResult::default() };
        Recorded { name: name.to_owned(), action: Digest::of(b""), result, inputs }
    }

    #[test]
    fn a_step_needs_the_makers_of_its_inputs_and_the_layer_of_images_all_other_programs() {
        let steps = [
            step("kernel amd64", &["config"], "kernel"),
            step("kernel-config amd64", &["source"], "config"),
            step("layer images", &["tar"], "images"),
            step("layer runc", &["runc"], "layer"),
            step("pod-dhcp amd64", &["crate"], "dhcp"),
            step("runc amd64", &["crate"], "runc"),
        ];
        let tasks = tasks(&steps);
        let place = |name: &str| tasks.iter().position(|task| task.name == name).unwrap();
        let needs = |name: &str| {
            let needs = tasks[place(name)].needs.iter();
            needs.map(|need| tasks[*need].name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(needs("kernel amd64"), ["kernel-config amd64"]);
        assert_eq!(needs("layer runc"), ["runc amd64"]);
        assert_eq!(needs("layer images"), ["pod-dhcp amd64"]);
        assert_eq!(needs("runc amd64"), [""; 0]);
        for (index, task) in tasks.iter().enumerate() {
            assert!(task.needs.iter().all(|need| *need < index), "{task:?}");
        }
    }

    #[test]
    fn steps_with_the_same_bytes_that_need_each_other_end() {
        let steps = [step("a", &["2"], "1"), step("b", &["1"], "2")];
        assert_eq!(tasks(&steps).len(), 2);
    }
}
