"""Triples and tables of the data sets of the Semantic Web."""

from __future__ import annotations

import itertools

import numpy as np

from support.published.drawn import made

RDF_TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
SUBCLASS = "<http://www.w3.org/2000/01/rdf-schema#subClassOf>"
TEXT = "http://www.w3.org/2001/XMLSchema"


def _write(folder, name, file, triples, header, rows, num_train):
    """The triples in N-Triples, which is Notation 3 too, and the rows in two tables."""
    where = made(folder, name)
    (where / file).write_text("".join(f"{s} {p} {o} .\n" for s, p, o in triples))
    for table, part in (("trainingSet", rows[:num_train]), ("testSet", rows[num_train:])):
        lines = ["\t".join(header), *("\t".join(map(str, row)) for row in part)]
        (where / f"{table}.tsv").write_text("\n".join(lines) + "\n")
    return where


def _classes(rng, number, num_classes, shares=None):
    """A class for each thing; all of them occur among the first."""
    drawn = rng.choice(num_classes, size=number, p=shares)
    drawn[:num_classes] = np.arange(num_classes)
    return drawn


def _of_class(rng, classes, wanted, alike=0.85):
    """A drawn thing, mostly of a class."""
    own = np.flatnonzero(classes == wanted)
    return (
        int(rng.choice(own))
        if len(own) and rng.random() < alike
        else int(rng.integers(len(classes)))
    )


def write_aifb(
    folder, rng, num_train=140, num_test=36, num_publications=1200, num_projects=80, num_topics=140
):
    """``aifb-hetero``: people of 4 research groups (as 63, 60, 41 and 12 of 176), and their work."""
    base, own = "http://www.aifb.uni-karlsruhe.de", "http://swrc.ontoware.org/ontology#"
    number = num_train + num_test
    groups = _classes(rng, number, 4, [0.41, 0.34, 0.16, 0.09])

    def thing(kind, view, n):
        return f"<{base}/{kind}/view{view}OWL/id{n}instance>"

    def person(n):
        return thing("Personen", "Person", n)

    triples = []
    for n, group in enumerate(groups.tolist()):
        member = thing("Forschungsgruppen", "Forschungsgruppe", group)
        triples += [
            (person(n), RDF_TYPE, f"<{own}{'PhDStudent' if n % 3 else 'FullProfessor'}>"),
            (person(n), f"<{own}name>", f'"Person {n}"'),
            (person(n), f"<{own}affiliation>", member),
            (member, f"<{own}employs>", person(n)),
        ]
    for kind, view, relation, size in (
        ("Publikationen", "Publikation", "publication", num_publications),
        ("Projekte", "Projekt", "worksAtProject", num_projects),
        ("Forschungsgebiete", "Forschungsgebiet", "isAbout", num_topics),
    ):
        for n, group in enumerate(rng.integers(4, size=size).tolist()):
            made_thing = thing(kind, view, n)
            for m in {_of_class(rng, groups, group) for _ in range(1 + n % 3)}:
                triples.append((person(m), f"<{own}{relation}>", made_thing))
            year = f'"{1995 + n % 11}"^^<{TEXT}#gYear>' if n % 2 else f'"{1995 + n % 11}"'
            triples.append((made_thing, f"<{own}year>", year))
            triples.append((made_thing, f"<{own}keywords>", f'"word {group} {n % 5}"'))
    triples.append(("_:b0", f"<{own}author>", person(0)))
    rows = [
        (person(n)[1:-1], n, thing("Forschungsgruppen", "Forschungsgruppe", g)[1:-1])
        for n, g in enumerate(groups.tolist())
    ]
    header = ("person", "id", "label_affiliation")
    return _write(folder, "aifb-hetero", "aifb_fixed_complete.n3", triples, header, rows, num_train)


def write_mutag(folder, rng, num_train=272, num_test=68, atoms=8):
    """``mutag-hetero``: molecules of 2 classes, atoms, bonds, and a small schema."""
    own = "http://dl-learner.org/carcinogenesis#"
    label = _classes(rng, num_train + num_test, 2, [0.4, 0.6])
    triples = [
        (f"<{own}Carbon-{n}>", SUBCLASS, f"<{own}{kind}>")
        for n, kind in enumerate(("Carbon", "Carbon", "Nitrogen"))
    ]
    bonds = 0
    for n, mutagenic in enumerate(label.tolist()):
        molecule = f"<{own}d{n}>"
        truth = f'"{str(bool(mutagenic)).lower()}"^^<{TEXT}#boolean>'
        triples += [
            (molecule, RDF_TYPE, f"<{own}Compound>"),
            (molecule, f"<{own}isMutagenic>", truth),
            (molecule, f"<{own}hasStructure>", f"<{own}nitro-{int(mutagenic)}{n % 7}>"),
        ]
        names = [f"<{own}d{n}_{m}>" for m in range(atoms)]
        for m, atom in enumerate(names):
            kind = "Carbon" if rng.random() < 0.5 + 0.3 * mutagenic else "Nitrogen"
            charge = f'"{rng.integers(-9, 9) / 10}"^^<{TEXT}#double>'
            triples += [
                (molecule, f"<{own}hasAtom>", atom),
                (atom, RDF_TYPE, f"<{own}{kind}-{m % 4}>"),
                (atom, f"<{own}charge>", charge),
            ]
        for first, second in itertools.pairwise(names):
            bond, bonds = f"<{own}bond{bonds}>", bonds + 1
            triples += [
                (molecule, f"<{own}hasBond>", bond),
                (bond, f"<{own}inBond>", first),
                (bond, f"<{own}inBond>", second),
            ]
    rows = [(f"{own}d{n}", n, float(c)) for n, c in enumerate(label.tolist())]
    header = ("bond", "id", "label_mutagenic")
    return _write(folder, "mutag-hetero", "mutag_stripped.nt", triples, header, rows, num_train)


def write_bgs(folder, rng, num_train=117, num_test=29, num_units=800):
    """``bgs-hetero``: rock units, some of them with a lithogenesis of 2, ages and ranks."""
    base, ref = "http://data.bgs.ac.uk/id", "http://data.bgs.ac.uk/ref/Lexicon"
    number = num_train + num_test
    label = _classes(rng, max(num_units, number), 2, [0.4, 0.6])

    def unit(n):
        return f"<{base}/Lexicon/NamedRockUnit/U{n}>"

    triples = []
    for n, kind in enumerate(label.tolist()):
        triples += [
            (unit(n), f"<{ref}/hasRockUnitRank>", f"<{base}/Lexicon/RockUnitRank/R{n % 5}>"),
            (unit(n), f"<{ref}/hasLithogenesis>", f"<{base}/Lexicon/Lithogenesis/L{kind}>"),
            (
                unit(n),
                f"<{ref}/hasDominantColour>",
                f"<{base}/EarthMaterialClass/Colour/C{kind}{n % 6}>",
            ),
            (
                unit(n),
                "<http://www.w3.org/2004/02/skos/core#broader>",
                unit(_of_class(rng, label, kind)),
            ),
            (unit(n), f"<{ref}/status>", "<http://data.bgs.ac.uk/ref/CurrentStatus/CURRENT/X>"),
            (unit(n), f"<{ref}/name>", f'"unit {n}"@en'),
        ]
    rows = [(n, unit(n)[1:-1], f"{base}/Lexicon/Lithogenesis/L{label[n]}") for n in range(number)]
    header = ("id", "rock", "label_lithogenesis")
    return _write(folder, "bgs-hetero", "bgs_stripped.nt", triples, header, rows, num_train)


def write_am(folder, rng, num_train=802, num_test=198, num_proxies=2000, blank_nodes=0):
    """``am-hetero``: objects of 11 categories, with makers, motifs and terms."""
    own = "http://purl.org/collections/nl/am/"
    number = num_train + num_test
    label = _classes(rng, max(num_proxies, number), 11)
    triples = []
    for n, kind in enumerate(label.tolist()):
        proxy = f"<{own}proxy-{n}>"
        triples += [
            (proxy, f"<{own}objectCategory>", f"<{own}t-{kind}>"),
            (proxy, f"<{own}material>", f"<{own}t-{100 + kind}>"),
            (proxy, f"<{own}maker>", f"<{own}p-{kind * 20 + int(rng.integers(20))}>"),
            (proxy, f"<{own}contentMotifGeneral>", f"<{own}t-{1000 + kind * 5 + n % 5}>"),
            (proxy, "<http://www.openarchives.org/ore/terms/proxyFor>", f"<{own}physical-{n}>"),
            (proxy, f"<{own}title>", f'"Object {n}"'),
            (f"<{own}physical-{n}>", RDF_TYPE, f"<{own}Object>"),
        ]
    triples += [
        (f"<{own}proxy-{n}>", f"<{own}dimension>", f"_:size{n}") for n in range(blank_nodes)
    ]
    rows = [(f"{own}proxy-{n}", n, f"{own}t-{label[n]}") for n in range(number)]
    header = ("proxy", "id", "label_cateogory")
    return _write(folder, "am-hetero", "am_stripped.nt", triples, header, rows, num_train)
