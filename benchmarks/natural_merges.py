"""The merges that calibration is judged on, chosen by the names of the labels alone.

They were committed before any of their numbers was computed. A merge is a plan's `changes`; groups
may overlap between merges, as each merge is a change of its own.
"""

from __future__ import annotations

Groups = dict[str, tuple[str, ...]]

BANKING77: dict[str, Groups] = {
    "top-ups": {
        "top_up": (
            "automatic_top_up",
            "pending_top_up",
            "top_up_by_bank_transfer_charge",
            "top_up_by_card_charge",
            "top_up_by_cash_or_cheque",
            "top_up_failed",
            "top_up_limits",
            "top_up_reverted",
            "topping_up_by_card",
            "verify_top_up",
        )
    },
    "identity": {
        "identity": ("unable_to_verify_identity", "verify_my_identity", "why_verify_identity")
    },
    "fees": {
        "fee": (
            "card_payment_fee_charged",
            "cash_withdrawal_charge",
            "exchange_charge",
            "extra_charge_on_statement",
            "top_up_by_bank_transfer_charge",
            "top_up_by_card_charge",
            "transfer_fee_charged",
        )
    },
    "pending": {
        "pending": (
            "pending_card_payment",
            "pending_cash_withdrawal",
            "pending_top_up",
            "pending_transfer",
        )
    },
    "declined": {
        "declined": ("declined_card_payment", "declined_cash_withdrawal", "declined_transfer")
    },
}

MAGIKA: dict[str, Groups] = {
    "C family": {"c_family": ("c", "cpp", "objectivec")},
    "markup": {"markup": ("html", "rdf", "sgml", "svg", "xml")},
    "JavaScript family": {"javascript_family": ("javascript", "typescript", "vue")},
    "settings and data": {"data": ("ini", "json", "jsonl", "toml", "yaml")},
    "written text": {"written_text": ("latex", "markdown", "rst", "txt")},
}

CIFAR10: dict[str, Groups] = {
    "vehicles": {"vehicle": ("airplane", "automobile", "ship", "truck")},
    "animals": {"animal": ("bird", "cat", "deer", "dog", "frog", "horse")},
    "vehicles, animals": {
        "vehicle": ("airplane", "automobile", "ship", "truck"),
        "animal": ("bird", "cat", "deer", "dog", "frog", "horse"),
    },
}

# The 20 superclasses of CIFAR-100 at once are a fourth merge, of the data set's own groups.
CIFAR100: dict[str, Groups] = {
    "people": {"people": ("baby", "boy", "girl", "man", "woman")},
    "trees": {"tree": ("maple_tree", "oak_tree", "palm_tree", "pine_tree", "willow_tree")},
    "fish": {"fish": ("aquarium_fish", "flatfish", "ray", "shark", "trout")},
}


def changes_of(groups: Groups) -> dict[str, str]:
    """Return a plan's changes, which send each label to its group."""
    return {label: group for group, labels in groups.items() for label in labels}
