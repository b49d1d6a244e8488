"""Are the values of `voile.Explainer` those of shap, for the models and tables people have?"""
