{
  description = "kolu keeps terminals, and the coding agents in them, alive and legible on any machine you can reach with ssh";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" "x86_64-darwin" "aarch64-darwin" ];
      each = f: nixpkgs.lib.genAttrs systems (system: f nixpkgs.legacyPackages.${system});
      build = pkgs: pkgs.callPackage ./nix/package.nix { commit = self.rev or self.dirtyRev or ""; };
      run = package: name: { type = "app"; program = "${package}/bin/${name}"; meta.description = name; };
    in
    {
      packages = each (pkgs: rec {
        default = build pkgs;
        kolu = default;
      });

      apps = each (pkgs:
        let package = self.packages.${pkgs.system}.default; in
        nixpkgs.lib.genAttrs [ "kolu" "padi-tui" "kaval-tui" ] (run package) // { default = run package "kolu"; });

      devShells = each (pkgs: {
        default = pkgs.mkShell { packages = [ pkgs.go pkgs.gopls pkgs.openssh pkgs.nix pkgs.jq pkgs.gnumake ]; };
      });

      overlays.default = final: _: { kolu = build final; };
    };
}
