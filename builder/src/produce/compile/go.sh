# Compiles programs of one Go module: `go.sh FILE=PACKAGE …`. Reads proxy/ (a module proxy of files), around/ where the module needs
# another one around it, sysroot/*.deb where cgo needs libraries; writes out/FILE.
export GOPROXY=file:///build/proxy GOSUMDB=off GOTOOLCHAIN=local GOWORK=off GOFLAGS=-mod=readonly
export GOMODCACHE=/build/modules GOCACHE=/build/cache PATH="/toolchain/go/bin:$PATH"
if [ "$CGO_ENABLED" = 1 ]; then
    for package in sysroot/*.deb; do ar p "$package" data.tar.xz | tar --no-same-owner -xJ -C sysroot; done
    export PKG_CONFIG_SYSROOT_DIR=/build/sysroot PKG_CONFIG_LIBDIR="/build/sysroot/usr/lib/$GNU/pkgconfig"
fi
mkdir -p out
if [ -d around ]; then
    cd around
else
    GOFLAGS= go mod download "$MODULE@$VERSION"
    cd "$GOMODCACHE/$ESCAPED@$VERSION"
fi
for output in "$@"; do
    go build -trimpath -buildvcs=false -tags "$TAGS" -ldflags "-s -w -buildid= $LDFLAGS" -o "/build/out/${output%%=*}" "${output#*=}"
done
