"""The words of HOST's distribution: how it installs a package, and how it makes GRUB's menu again."""

# By an ID or ID_LIKE of os-release: the command, and the names of packages that differ from Debian's.
FAMILIES = {
    "debian": ("apt-get install", {}),
    "rhel": ("dnf install", {"grub2-common": "grub2-tools", "iproute2": "iproute"}),
    "fedora": ("dnf install", {"grub2-common": "grub2-tools", "iproute2": "iproute"}),
    "suse": ("zypper install", {"grub2-common": "grub2"}),
    "arch": ("pacman -S", {"grub2-common": "grub"}),
    "alpine": ("apk add", {"grub2-common": "grub"}),
}


def family(facts):
    release = facts.words("os-release")
    names = [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
    return next((part for name in names for key, part in FAMILIES.items() if name == key or name.startswith(key + "-")),
                FAMILIES["debian"])


def install(facts, package):
    """Returns the command by which HOST installs a package, which is named as in Debian."""
    command, names = family(facts)
    return f"{command} {names.get(package, package)}"


def make_menu(facts):
    """Returns the command by which HOST makes grub.cfg again."""
    if facts.text("grub-tools").strip() != "grub2" and family(facts) is FAMILIES["debian"]:
        return "update-grub"
    tool = facts.text("grub-tools").strip() or "grub2"
    return f"{tool}-mkconfig -o {facts.text('grub-directory').strip() or '/boot/grub2'}/grub.cfg"
