# The client's package: one static file with six names in bin/, and beside it one build for each system that a host may have,
# with their manifest. Every build is made by the same commands on every machine, so the file of this system in bin/ is the
# same file as its build in share/.
{ buildGoModule, commit }:
let
  names = [ "kaval" "padi" "kaval-tui" "padi-tui" "pulam-tui" ];
  version = builtins.head (builtins.match ".*\nvar Version = \"([0-9.]+)\"\n.*" (builtins.readFile ../internal/version/version.go));
  notBuilt = map toString [ ../docs ../vm-tests ../bench ../changelog ../nix/stub ../.ci ../.git ];
in
buildGoModule {
  pname = "kolu";
  inherit version commit;

  src = builtins.path {
    name = "kolu-source";
    path = ../.;
    filter = path: _: !(builtins.elem path notBuilt);
  };
  vendorHash = import ./vendor-hash.nix;

  env.CGO_ENABLED = "0";
  doCheck = false; # the tests want terminals, ssh servers and namespaces: they run by ./test

  buildPhase = ''
    runHook preBuild
    KOLU_COMMIT=$commit sh nix/build agents
    runHook postBuild
  '';
  installPhase = ''
    runHook preInstall
    mkdir -p $out/bin $out/share
    cp -r agents $out/share/kolu
    own=$(sh nix/build system)
    cp $out/share/kolu/$own/kolu $out/bin/kolu
    for name in ${toString names}; do ln -s kolu $out/bin/$name; done
    runHook postInstall
  '';

  # What travels to a host is a file that needs nothing else: no store path may be in it, and no byte of it is changed
  # after the linker made (and on darwin signed) it.
  dontFixup = true;
  allowedReferences = [ ];

  meta = {
    description = "terminals and coding agents, alive and legible on any machine";
    mainProgram = "kolu";
  };
}
