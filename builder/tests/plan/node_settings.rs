//! Settings of a recipe in the words of the node document.

use crate::schemas::valid_by;
use crate::{changed, refusal, resolve};
use osbuild::plan::{Content, FileKind, Project, schema};
use osbuild_abi::paths::IMAGE_SETTINGS;

const SMALL: &str = "recipes/small.toml";

/// The small project with these sections before `[files]`, from line 16 of its recipe.
fn with(sections: &str) -> Project {
    changed(&[(SMALL, "[files]\n", &format!("{sections}\n[files]\n"))])
}

/// The text of the file that `init` reads, if the node has it.
fn file(project: &Project) -> Option<String> {
    let plan = resolve(project);
    let file = plan.files.iter().find(|file| file.path == IMAGE_SETTINGS)?;
    match &file.content {
        Content::Text(text) => Some(text.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn settings_of_a_recipe_are_lines_for_init_and_keys_of_the_plan() {
    let project = with(
        "[node]\nswap = { size = \"512Mi\" }\n\n\
                        [node.kernel-parameters]\n\"vm.max_map_count\" = 262144\n\n\
                        [[node.firewall-rules]]\nname = \"ssh\"\nprotocol = \"tcp\"\n\
                        ports = [\"22\"]\naction = \"drop\"\n\n\
                        [node.kubelet.labels]\n\"example.org/rack\" = \"7\"\n",
    );
    let text = file(&project).unwrap();
    for line in [
        "kernel-parameter vm.max_map_count 262144",
        "swap size=512Mi",
        "node-label example.org/rack 7",
    ] {
        assert!(text.lines().any(|found| found == line), "{text}");
    }
    assert!(text.contains("firewall-rule ssh "), "{text}");
    let printed = resolve(&project).print();
    for line in [
        "[node]",
        "kernel-parameters = { \"vm.max_map_count\" = 262144 }  # recipes/small.toml:",
        "swap = { size = \"512Mi\" }  # recipes/small.toml:",
        "kubelet.labels = { \"example.org/rack\" = \"7\" }  # recipes/small.toml:",
    ] {
        assert!(printed.contains(line), "{printed}");
    }
}

#[test]
fn a_recipe_without_settings_has_no_file() {
    assert_eq!(file(&changed(&[])), None);
    assert!(!resolve(&changed(&[])).print().contains("[node]"));
}

#[test]
fn a_recipe_replaces_one_key_of_the_settings_that_it_inherits() {
    let mut project = with("[node.kernel-parameters]\n\"vm.max_map_count\" = 65530\n");
    let base = project.files.get_mut("recipes/base.toml").unwrap();
    base.extend(
        b"\n[node]\nswap = { size = \"512Mi\" }\n\n\
          [node.kernel-parameters]\n\"vm.swappiness\" = 10\n",
    );
    let text = file(&project).unwrap();
    assert_eq!(text, "kernel-parameter vm.max_map_count 65530\nswap size=512Mi\n");
}

#[test]
fn every_wrong_setting_is_reported_at_its_place_in_the_recipe() {
    let error = refusal(&with(
        "[node]\nswap = { size = \"many\" }\nhostname = \"a\"\n\n[[node.links]]\n\
         link = \"eth0\"\nmtu = 1\n\n[node.kubelet]\ntaints = [\"x\"]\n\
         labels = { a = 1.5 }\n",
    ));
    let text = error.to_string();
    assert!(text.contains("unknown key `hostname` in `node`"), "{text}");
    assert!(text.contains("no setting of a node is a number with a fraction"), "{text}");
    assert!(text.contains("mtu = 1"), "{text}");
    assert_eq!(text.matches("a = 1.5").count(), 1, "{text}");
    let error = refusal(&with(
        "[node]\nswap = { size = \"many\" }\n\n[[node.links]]\nlink = \"eth0\"\n\
         mtu = 1\n\n[node.kubelet]\ntaints = [\"x\"]\n",
    ));
    let text = error.to_string();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(" | ")).collect();
    for line in ["swap = { size = \"many\" }", "mtu = 1", "taints = [\"x\"]"] {
        assert!(lines.iter().any(|shown| shown.ends_with(line)), "{text}");
    }
    assert_eq!(text.matches("recipes/small.toml:").count(), 3, "{text}");
}

#[test]
fn a_secret_in_a_recipe_is_refused_and_not_shown() {
    let error = refusal(&with(
        "[[node.links]]\nlink = \"wg0\"\n[node.links.wireguard]\n\
         private-key = \"+C5uPI+LwtD0ASrcA8O3unwdwbH4oh00+FQs+0Pho28=\"\n",
    ));
    let text = error.to_string();
    assert!(text.contains("`private-key` cannot be in a recipe"), "{text}");
    assert!(!text.contains("+C5uPI"), "{text}");
    let secrets = "[[node.links]]\nlink = \"wg0\"\n\
                   wireguard = { private-key = \"hunter2\", preshared-key = \"hunter3\" }\n";
    for text in [secrets.to_owned(), secrets.replace("hunter2\"", "hunter2")] {
        let text = refusal(&with(&text)).to_string();
        assert!(!text.contains("hunter"), "{text}");
    }
}

#[test]
fn time_servers_that_no_node_asks_are_refused() {
    let nine = ["\"a\""; 9].join(", ");
    for servers in ["\"a:99999\"", &nine] {
        let list = format!("time-servers = [{servers}]\ninherit");
        let text = refusal(&changed(&[(SMALL, "inherit", &list)])).to_string();
        assert!(text.contains("recipes/small.toml:1"), "{text}");
    }
}

#[test]
fn the_schema_of_recipes_has_the_keys_of_the_node_document() {
    let cases = [
        ("[node.resolver]\nnameserver = [\"192.0.2.53\"]\n", true),
        ("[node.kubelet.labels]\na = \"b\"\n", true),
        ("[[node.links]]\nlink = \"eth0\"\nmtu = 1400\n", true),
        ("[node.resolver]\nnameserver = 7\n", false),
        ("[node.kubelet]\nnode-ip = \"192.0.2.7\"\n", false),
        ("[[node.links]]\nlink = 7\n", false),
    ];
    let pairs = cases.map(|(text, _)| (schema(FileKind::Recipe), text));
    assert_eq!(valid_by(&pairs), cases.map(|(_, is_valid)| is_valid));
}
