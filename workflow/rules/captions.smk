# What the report shows (`make report`), under which heading, and with which caption.
import captions

SHOWN, CAPTIONED = captions.of_repository()
# Captions see the config, and through it the results; to all else this is an empty dict.
config["captions"] = captions.Captions(RUN)


report: "../report/workflow.rst"


def reported_figure(suffix, kind):
    """A file of a figure, under the claims that the figure shows."""
    return report(
        f"figures/{RUN}/{{figure}}.{suffix}",
        caption="../report/figure.rst",
        category=lambda wildcards: "Claims" if wildcards.figure in SHOWN else "Further figures",
        subcategory=lambda wildcards: ", ".join(SHOWN.get(wildcards.figure, ["All"])),
        labels=lambda wildcards: {"figure": FIGURES[wildcards.figure]["title"], "as": kind},
    )


def reported_table(path):
    """A table, under the folder of workflow/report that has its caption."""
    name = Path(path).stem
    caption = f"../report/{CAPTIONED[name]}/{name}.rst"
    return report(path, caption=caption, category="Tables", subcategory=CAPTIONED[name], labels={"table": name})
