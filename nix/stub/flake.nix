# Stands in for nixpkgs where there is no network: it has just the names that our flake uses, so that evaluating the flake
# against it finds what is misspelt, missing or of the wrong shape, on every system.
{
  outputs = { self }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" "x86_64-darwin" "aarch64-darwin" ];
      lib.genAttrs = names: f: builtins.listToAttrs (map (name: { inherit name; value = f name; }) names);
      fake = system: name: derivation { inherit name system; builder = "/bin/sh"; args = [ "-c" "echo ${name} > $out" ]; };
      known = [
        "pname" "version" "commit" "src" "vendorHash" "env" "doCheck" "buildPhase" "installPhase" "dontFixup" "allowedReferences" "meta"
      ];
      buildGoModule = system: attrs:
        assert builtins.all (a: builtins.elem a known || throw "buildGoModule: ${a} is not in the stub") (builtins.attrNames attrs);
        assert builtins.match "sha256-[A-Za-z0-9+/]{43}=" attrs.vendorHash != null;
        builtins.deepSeq (builtins.removeAttrs attrs [ "src" ]) (builtins.seq "${attrs.src}" (fake system "${attrs.pname}-${attrs.version}"));
      packagesFor = system:
        let
          packages = lib.genAttrs [ "go" "gopls" "openssh" "nix" "jq" "gnumake" ] (fake system) // {
            inherit system lib;
            buildGoModule = buildGoModule system;
            mkShell = a: builtins.deepSeq (map (p: p.drvPath) a.packages) (fake system "shell");
            callPackage = file: more:
              let f = import file; in f (builtins.intersectAttrs (builtins.functionArgs f) packages // more);
          };
        in
        packages;
    in
    {
      inherit lib;
      legacyPackages = lib.genAttrs systems packagesFor;
    };
}
