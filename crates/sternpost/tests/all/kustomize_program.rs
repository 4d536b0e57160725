//! This program by the name of kustomize. What is wrong, and the exit codes, are recorded from kustomize 5.8.1; the
//! words of help and usage are our own.
#![cfg(unix)]

use std::process::Command;

use sternpost_testkit::{process, scratch::Scratch};

const MANIFEST: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n";

struct Kustomize(Scratch);

impl Kustomize {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(name);
        std::os::unix::fs::symlink(process::program(), scratch.path("kustomize")).unwrap();
        std::fs::create_dir(scratch.path("app")).unwrap();
        scratch.write("app/kustomization.yaml", "resources: [a.yaml]\n");
        scratch.write("app/a.yaml", MANIFEST);
        Self(scratch)
    }

    fn run(&self, words: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(self.0.path("kustomize"));
        // Settings are for servers.
        command.args(words).current_dir(&self.0.0).env("NO_COLOR", "1").env("STERNPOST_CONFIG", "/no/such");
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }
}

#[test]
fn commands_answer_as_kustomize_does() {
    let kustomize = Kustomize::new("kustomize-answers");
    for (words, code, stdout, stderr) in [
        (&["version"][..], 0, "v5.8.1\n", ""),
        (
            &["version", "--short"],
            0,
            "{v5.8.1  unknown   }\n",
            "Flag --short has been deprecated, and will be removed in the future.\n",
        ),
        (&["build", "app"], 0, MANIFEST, ""),
        (&["build", "app", "--stack-trace"], 0, MANIFEST, ""),
        (&["--stack-trace", "build", "app"], 0, MANIFEST, ""),
        (&["--stack-trace=true", "build", "app"], 0, MANIFEST, ""),
        (&["--stack-trace=true", "version"], 0, "v5.8.1\n", ""),
        (&["build", "app", "--help=false"], 0, MANIFEST, ""),
        (&["build", "a", "b"], 1, "", "Error: specify one path to kustomization.yaml\n"),
        (&["build", "--nosuch"], 1, "", "Error: unknown flag: --nosuch\n"),
        (&["build", "app", "-x"], 1, "", "Error: unknown shorthand flag: 'x' in -x\n"),
        (&["build", "-o"], 1, "", "Error: flag needs an argument: 'o' in -o\n"),
        (&["build", "app", "-e"], 1, "", "Error: flag needs an argument: 'e' in -e\n"),
        (&["build", "--output"], 1, "", "Error: flag needs an argument: --output\n"),
        (
            &["build", "app", "--enable-helm=maybe"],
            1,
            "",
            "Error: invalid argument \"maybe\" for \"--enable-helm\" flag: strconv.ParseBool: parsing \"maybe\": \
             invalid syntax\n",
        ),
        (
            &["nosuch"],
            1,
            "",
            "Error: unknown command \"nosuch\" for \"kustomize\"\nRun 'kustomize --help' for usage.\n",
        ),
        (
            &["biuld"],
            1,
            "",
            "Error: unknown command \"biuld\" for \"kustomize\"\n\nDid you mean this?\n\tbuild\n\n\
             Run 'kustomize --help' for usage.\n",
        ),
        (
            &["EDIT"],
            1,
            "",
            "Error: unknown command \"EDIT\" for \"kustomize\"\n\nDid you mean this?\n\tedit\n\n\
             Run 'kustomize --help' for usage.\n",
        ),
        (
            &["cr"],
            1,
            "",
            "Error: unknown command \"cr\" for \"kustomize\"\n\nDid you mean this?\n\tcreate\n\tcfg\n\tfn\n\n\
             Run 'kustomize --help' for usage.\n",
        ),
    ] {
        assert_eq!(kustomize.run(words), (code, stdout.to_owned(), stderr.to_owned()), "{words:?}");
    }
}

#[test]
fn usage_and_help_speak_of_kustomize() {
    let kustomize = Kustomize::new("kustomize-usage");
    for (words, code, stdout, stderr) in [
        (&[][..], 0, "\n\nUsage:\n  kustomize [command]\n", ""),
        (&["--help"], 0, "\n  build ", ""),
        (&["--help", "build"], 0, "Usage:\n  kustomize [command]\n", ""),
        (&["help"], 0, "Usage:\n  kustomize [command]\n", ""),
        (&["build", "--help"], 0, "Usage: kustomize build [OPTIONS]", ""),
        (&["help", "build"], 0, "\n  kustomize build overlays/production -o production.yaml\n", ""),
        (&["help", "edit", "add"], 0, "Usage:\n  kustomize edit add [command]\n", ""),
        (&["help", "edit", "nosuch"], 0, "Usage:\n  kustomize edit [command]\n", ""),
        (&["help", "completion"], 0, "Usage:\n  kustomize completion [bash|", ""),
        (&["version", "--help"], 0, "Usage:\n  kustomize version [flags]\n", ""),
        (&["edit"], 0, "Usage:\n  kustomize edit [command]\n", ""),
        (&["help", "a", "b"], 0, "", "Unknown help topic [`a` `b`]\nUsage:\n  kustomize [command]\n"),
        (&["--version"], 1, "", "Error: unknown flag: --version\nUsage:\n  kustomize [command]\n"),
        (&["-x"], 1, "", "Error: unknown shorthand flag: 'x' in -x\nUsage:\n  kustomize [command]\n"),
        (&["edit", "set", "image"], 1, "", "Error: no image specified\nUsage:\n  kustomize edit set image "),
        (
            &["completion"],
            1,
            "",
            "Error: accepts 1 arg(s), received 0\nUsage:\n  kustomize completion [bash|",
        ),
        (
            &["completion", "bash", "x"],
            1,
            "",
            "Error: accepts 1 arg(s), received 2\nUsage:\n  kustomize completion [bash|",
        ),
        (
            &["completion", "nosuch"],
            1,
            "",
            "Error: invalid argument \"nosuch\" for \"kustomize completion\"\nUsage:\n  kustomize completion [bash|",
        ),
        (
            &["completion", "zsh", "--no-descriptions"],
            1,
            "",
            "Error: unknown flag: --no-descriptions\nUsage:\n  kustomize completion [bash|",
        ),
    ] {
        let found = kustomize.run(words);
        assert_eq!(found.0, code, "{words:?}: {found:?}");
        assert!(found.1.contains(stdout) && found.1.is_empty() == stdout.is_empty(), "{words:?}: {found:?}");
        assert!(
            found.2.starts_with(stderr) && found.2.is_empty() == stderr.is_empty(),
            "{words:?}: {found:?}"
        );
        assert!(!format!("{found:?}").contains("sternpost build"), "{words:?}: {found:?}");
    }
}

#[test]
fn shells_complete_the_program() {
    let kustomize = Kustomize::new("kustomize-completion");
    let (code, script, stderr) = kustomize.run(&["completion", "bash", "--stack-trace"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(script.contains("complete -F _kustomize") && !script.contains("sternpost"), "{script}");
}

#[test]
fn a_change_is_made_and_built() {
    let kustomize = Kustomize::new("kustomize-change");
    let link = kustomize.0.path("kustomize");
    let run = |words: &[&str]| {
        let output = Command::new(&link).args(words).current_dir(kustomize.0.path("app")).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(run(&["edit", "set", "namesuffix", "--", "-b"]), "");
    assert_eq!(run(&["build"]), MANIFEST.replace("name: a", "name: a-b"));
    assert_eq!(run(&["build", ".", "-o", "built.yaml"]), "");
    assert_eq!(run(&["cfg", "count", "built.yaml"]), "built.yaml/\nConfigMap: 1\n");
}
