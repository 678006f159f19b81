//! Every recipe, board and component of this checkout.

use crate::{TODAY, shipped};
use osbuild::plan::{self, Architecture, Content, Lock, Minor, Peg, Releases, Strictness};
use osbuild_abi::{paths, writable};
use std::collections::BTreeSet;

#[test]
fn every_shipped_file_passes_the_check() {
    let shown: Vec<String> =
        plan::check(&shipped(), TODAY).0.iter().map(ToString::to_string).collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
}

#[test]
fn every_recipe_that_names_a_board_resolves() {
    let project = shipped();
    let recipes = plan::buildable(&project);
    let machines = [
        "aws-amd64",
        "aws-arm64",
        "control-plane-amd64",
        "probe-apparmor",
        "probe-btf",
        "probe-next",
        "probe",
        "qemu-amd64",
        "qemu-arm64",
        "single-amd64",
        "uefi-amd64",
        "uefi-arm64",
    ];
    assert_eq!(recipes, [&machines[..], &["usb-installer-amd64", "usb-installer-arm64"]].concat());
    for recipe in recipes {
        let plan = plan::resolve(&project, &recipe, TODAY, Strictness::Lock)
            .unwrap_or_else(|error| panic!("{error}"));
        let named =
            recipe.rsplit_once('-').and_then(|(_, architecture)| Architecture::named(architecture));
        assert!(named.is_none_or(|named| named == plan.architecture), "{recipe}");
    }
}

/// A recipe that another one inherits makes the lock of each stale.
#[test]
fn every_lock_in_the_checkout_is_current() {
    let project = shipped();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../recipes");
    let machines = plan::buildable(&project);
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "lock") {
            continue;
        }
        let recipe = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        let lock = Lock::parse(&format!("recipes/{recipe}.lock"), &text).unwrap();
        let outcome = if machines.contains(&recipe) {
            let plan = plan::resolve(&project, &recipe, TODAY, Strictness::Build).unwrap();
            plan.lock(lock).map(|_| ())
        } else {
            plan::resolve_programs(&project, &recipe).unwrap().lock(lock).map(|_| ())
        };
        outcome.unwrap_or_else(|error| panic!("{error}"));
        count += 1;
    }
    assert!(count > machines.len(), "the tests' programs have locks too");
}

#[test]
fn each_control_plane_of_the_tests_has_the_minor_that_it_stands_for() {
    let project = shipped();
    let version_of = |recipe: &str| {
        let lab = plan::resolve_programs(&project, recipe).unwrap_or_else(|e| panic!("{e}"));
        let kubernetes = lab.components.iter().find(|component| component.go.name == "kubernetes");
        kubernetes.unwrap().go.version
    };
    let kubelet_of = |recipe: &str| {
        plan::resolve(&project, recipe, TODAY, Strictness::Build).unwrap().kubernetes.kubelet
    };
    let peg = kubelet_of("qemu-amd64");
    assert_eq!(version_of("lab"), peg);
    assert_eq!(version_of("lab-next"), kubelet_of("probe-next"));
    let behind = |recipe: &str, minors| version_of(recipe).minor.behind(minors);
    assert_eq!(behind("lab-next", 1), peg.minor);
    assert_eq!(behind("lab-newest", 2), peg.minor);
}

#[test]
fn an_update_keeps_each_control_plane_of_the_tests_as_far_behind_as_it_is() {
    let project = shipped();
    for recipe in ["lab", "lab-next", "lab-newest"] {
        let upstream = plan::upstream(&project, recipe).unwrap_or_else(|e| panic!("{e}"));
        let of_kubernetes = upstream.go.iter().filter(|go| go.module == plan::KUBERNETES);
        let pegs: Vec<Peg> = of_kubernetes.map(|go| go.peg).collect();
        assert!(!pegs.is_empty() && pegs.iter().all(|peg| *peg == Peg::Distance), "{recipe}");
    }
    let table = Releases::parse(
        "checked = 2026-11-21\n\n[minors]\n\
         \"1.37\" = { newest = \"1.37.2\", released = 2026-08-26, end-of-life = 2027-10-28 }\n",
    );
    let (table, minor) = (table.unwrap(), |minor| Minor { major: 1, minor });
    for (before, current, after) in [(37, 36, 36), (36, 35, 36), (36, 34, 35), (36, 36, 37)] {
        assert_eq!(table.as_far_behind(minor(before), minor(current)), minor(after));
    }
}

#[test]
fn a_node_makes_no_control_plane_that_it_cannot_join() {
    const RECIPE: &str = "control-plane-amd64";
    let mut project = shipped();
    let path = format!("recipes/{RECIPE}.toml");
    let text = String::from_utf8(project.files[&path].clone()).unwrap();
    assert!(text.contains("version = \"1.35.8\""));
    project.files.insert(path, text.replace("\"1.35.8\"", "\"1.34.12\"").into_bytes());
    let refused = plan::resolve(&project, RECIPE, TODAY, Strictness::Build).unwrap_err();
    let shown = refused.to_string();
    assert!(shown.contains("control-plane-amd64.toml:9: kubelet 1.35.8 cannot join"), "{shown}");
    let upstream = plan::upstream(&project, RECIPE).unwrap();
    let kubeadm = upstream.go.iter().find(|go| go.component == "kubeadm").unwrap();
    assert_eq!(kubeadm.peg, Peg::Kubernetes, "an update moves both");
}

#[test]
fn a_recipe_cannot_drop_the_words_that_boot_needs() {
    let mut project = shipped();
    let words = |project: &plan::Project, recipe: &str| {
        let plan = plan::resolve(project, recipe, TODAY, Strictness::Build);
        plan.unwrap_or_else(|error| panic!("{error}")).product.kernel.command_line
    };
    let text = "inherit = \"qemu-amd64\"\n\n[kernel]\n\
                command-line = [\"nbd.nbds_max=8\", \"loglevel=7\", \"page-alloc.shuffle=0\"]\n";
    project.files.insert("recipes/edge.toml".to_owned(), text.into());
    let inherited = words(&project, "qemu-amd64").into_iter();
    let kept = inherited
        .filter(|word| !word.starts_with("loglevel=") && !word.starts_with("page_alloc.shuffle="));
    let own = ["nbd.nbds_max=8", "loglevel=7", "page-alloc.shuffle=0"].map(str::to_owned);
    let expected: Vec<String> = kept.chain(own).collect();
    assert!(expected.iter().any(|word| word == "rootfstype=ramfs"), "{expected:?}");
    assert_eq!(words(&project, "edge"), expected);
}

#[test]
fn the_values_of_a_stick_come_from_its_own_board() {
    let project = shipped();
    for architecture in ["amd64", "arm64"] {
        let recipe = format!("usb-installer-{architecture}");
        let plan = plan::resolve(&project, &recipe, TODAY, Strictness::Build).unwrap().print();
        let line = plan.lines().find(|line| line.starts_with("slot-size-mib = ")).unwrap();
        assert!(line.contains(&format!("# boards/usb-{architecture}.toml:")), "{line}");
    }
}

#[test]
fn an_architecture_has_two_kernels_and_the_tests_one_for_each_of_two_groups() {
    let project = shipped();
    for architecture in Architecture::ALL {
        let plans = plan::buildable(&project).into_iter();
        let plans =
            plans.map(|recipe| plan::resolve(&project, &recipe, TODAY, Strictness::Build).unwrap());
        let kernels: BTreeSet<_> = plans
            .filter(|plan| plan.architecture == architecture)
            .map(|plan| {
                let tested =
                    ["apparmor", "btf"].into_iter().find(|group| plan.kernel.groups[*group]);
                (plan.kernel.fragment(), tested)
            })
            .collect();
        let count = |group| kernels.iter().filter(|kernel| kernel.1 == group).count();
        assert_eq!(count(None), 2, "{architecture}: for virtual machines, and for bare ones");
        let of_tests = usize::from(architecture == Architecture::Amd64);
        assert_eq!([Some("apparmor"), Some("btf")].map(count), [of_tests; 2]);
    }
}

#[test]
fn every_kernel_has_no_modules_and_the_drivers_of_an_installer() {
    let project = shipped();
    for recipe in plan::buildable(&project) {
        let plan = plan::resolve(&project, &recipe, TODAY, Strictness::Build).unwrap();
        let value =
            |name: &str| plan.kernel.options.get(name).map(|option| option.value.to_string());
        assert_eq!(value("MODULES").as_deref(), Some("n"), "{recipe}");
        let mut wanted = vec![
            "VFAT_FS",
            "BLK_DEV_LOOP",
            "BLK_DEV_NVME",
            "VIRTIO_BLK",
            "SCSI_VIRTIO",
            "EFI_PARTITION",
        ];
        if recipe.starts_with("uefi-") {
            wanted.extend([
                "USB_STORAGE",
                "USB_UAS",
                "USB_XHCI_PCI",
                "SATA_AHCI",
                "FB_EFI",
                "WDAT_WDT",
                "TCG_CRB",
                "R8169",
                "IGB",
            ]);
        }
        for name in wanted {
            assert_eq!(value(name).as_deref(), Some("y"), "{recipe}: {name}");
        }
    }
}

#[test]
fn the_root_has_every_file_and_mount_point_of_init() {
    let plan = plan::resolve(&shipped(), "qemu-amd64", TODAY, Strictness::Build).unwrap();
    let content =
        |path: &str| plan.files.iter().find(|file| file.path == path).map(|file| &file.content);
    for path in [paths::KUBELET_CONFIG, paths::CONTAINERD_CONFIG, paths::SYSCTL] {
        assert!(matches!(content(path), Some(Content::File(_))), "{path}");
    }
    for path in writable::WRITABLE.iter().map(|one| one.path).chain([
        paths::DATA,
        paths::VOLUME_MOUNTS,
        "/proc",
        "/sys",
        "/dev",
    ]) {
        assert!(content(path).is_some(), "{path}");
    }
    for (path, target) in [("/etc/hosts", paths::HOSTS), ("/etc/resolv.conf", paths::RESOLV_CONF)] {
        assert_eq!(content(path), Some(&Content::Symlink(target.to_owned())));
    }
}
