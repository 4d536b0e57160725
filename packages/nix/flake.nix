{
  description = "The Kubernetes API without the cluster";

  inputs.nixpkgs.url = "nixpkgs";

  outputs =
    { self, nixpkgs }:
    let
      systems = [
        "x86_64-linux"
        "aarch64-linux"
        "x86_64-darwin"
        "aarch64-darwin"
      ];
      each = f: nixpkgs.lib.genAttrs systems (system: f nixpkgs.legacyPackages.${system});
    in
    {
      packages = each (pkgs: rec {
        default = sternpost;
        sternpost = pkgs.rustPlatform.buildRustPackage {
          pname = "sternpost";
          version = (builtins.fromTOML (builtins.readFile ../../Cargo.toml)).workspace.package.version;
          # The whole repository: this flake is used as `git+file:PATH?dir=packages/nix`, or likewise of a host.
          src = ../..;
          cargoLock.lockFile = ../../Cargo.lock;
          buildType = "dist";
          cargoBuildFlags = [
            "--package"
            "sternpost"
          ];
          # They run in the project's own CI, and some listen.
          doCheck = false;
          nativeBuildInputs = [
            pkgs.cmake
            pkgs.installShellFiles
          ];
          postInstall = ''
            $out/bin/sternpost man man
            installManPage man/*
            for shell in bash fish zsh; do $out/bin/sternpost completion $shell > sternpost.$shell; done
            installShellCompletion sternpost.{bash,fish,zsh}
          '';
          meta = {
            description = "The Kubernetes API without the cluster";
            license = pkgs.lib.licenses.asl20;
            mainProgram = "sternpost";
          };
        };
      });

      devShells = each (pkgs: {
        default = pkgs.mkShell { inputsFrom = [ self.packages.${pkgs.system}.sternpost ]; };
      });
    };
}
